import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

/**
 * HDFS in one process: name nodes and data nodes on free ports, until standard input ends.
 *
 * <p>Arguments: a directory, and the number of name nodes (2 is a pair for high availability, the first one active).
 * Prints `ready`, and port and web address of each name node. Then each line of input is a command, answered by `done`:
 * `activate <index>`, `standby <index>`, `safemode on|off`.
 */
public class MiniHdfs {
  public static void main(String[] args) throws Exception {
    Configuration conf = new HdfsConfiguration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(args[0]).getAbsolutePath());
    conf.set("dfs.namenode.fs-limits.min-block-size", "0");
    // Files may be closed before their last block is reported; else closing one takes half a second.
    conf.set("dfs.namenode.file.close.num-committed-allowed", "1");
    int nameNodes = Integer.parseInt(args[1]);
    MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(conf).numDataNodes(1);
    if (nameNodes > 1) {
      builder.nnTopology(MiniDFSNNTopology.simpleHATopology(nameNodes));
    }
    MiniDFSCluster cluster = builder.build();
    cluster.waitActive();
    StringBuilder ready = new StringBuilder("ready");
    for (int i = 0; i < nameNodes; i++) {
      String web = cluster.getNameNode(i).getHttpAddress().getHostString() + ":"
          + cluster.getNameNode(i).getHttpAddress().getPort();
      ready.append(' ').append(cluster.getNameNodePort(i)).append(' ').append(web);
    }
    if (nameNodes > 1) {
      cluster.transitionToActive(0);
    }
    System.out.println(ready);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] words = line.trim().split(" ");
      switch (words[0]) {
        case "activate" -> cluster.transitionToActive(Integer.parseInt(words[1]));
        case "standby" -> cluster.transitionToStandby(Integer.parseInt(words[1]));
        case "safemode" -> {
          if (words[1].equals("on")) {
            org.apache.hadoop.hdfs.server.namenode.NameNodeAdapter.enterSafeMode(cluster.getNameNode(0), false);
          } else {
            org.apache.hadoop.hdfs.server.namenode.NameNodeAdapter.leaveSafeMode(cluster.getNameNode(0));
          }
        }
        default -> throw new IllegalArgumentException(line);
      }
      System.out.println("done");
    }
    cluster.shutdown(true);
  }
}
