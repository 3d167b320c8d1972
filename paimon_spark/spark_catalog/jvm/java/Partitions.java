import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import org.apache.commons.lang3.StringUtils;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.Iterable;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Source: Spark datasources/FilePartition.scala, datasources/PartitionedFileUtil.scala. */
public Object partitions(Object session, Object values, String files) {
  Object[] rows = (Object[]) values;
  ArrayList made = new ArrayList();
  String[] fields = StringUtils.splitByWholeSeparatorPreserveAllTokens(files, "\u0000");
  long most = mostBytes((SparkSession) session, fields);
  for (int i = 0; i + 2 < fields.length; i += 3) {
    InternalRow row = (InternalRow) rows[Integer.parseInt(fields[i])];
    SparkPath path = SparkPath.fromPathString(fields[i + 1]);
    long size = Long.parseLong(fields[i + 2]);
    for (long start = 0; start < size; start += most) {
      made.add(new PartitionedFile(row, path, start, Math.min(most, size - start), new String[0], 0L, size,
          (Map) Map$.MODULE$.empty()));
    }
  }
  Collections.sort(made, new Comparator() {
    public int compare(Object a, Object b) {
      return Long.compare(((PartitionedFile) b).length(), ((PartitionedFile) a).length());
    }
  });
  Seq packed = FilePartition.getFilePartitions((SparkSession) session, seq(made), most);
  InputPartition[] out = new InputPartition[packed.size()];
  for (int i = 0; i < out.length; i++) {
    out[i] = (InputPartition) packed.apply(i);
    reachEnds(((FilePartition) out[i]).files());
  }
  return out;
}

/** Bytes of a partition, as FilePartition.maxSplitBytes. */
private static long mostBytes(SparkSession session, String[] fields) {
  SQLConf conf = session.sessionState().conf();
  long total = 0;
  for (int i = 0; i + 2 < fields.length; i += 3) {
    total += Long.parseLong(fields[i + 2]) + conf.filesOpenCostInBytes();
  }
  Option wanted = conf.filesMinPartitionNum();
  int least = wanted.isDefined() ? ((Integer) wanted.get()).intValue() : session.leafNodeDefaultParallelism();
  return Math.min(conf.filesMaxPartitionBytes(), Math.max(conf.filesOpenCostInBytes(), total / Math.max(1, least)));
}

/** The last piece of a file reaches to its end, even if the manifest has a wrong size: no row may be lost. */
private static void reachEnds(PartitionedFile[] files) {
  for (int i = 0; i < files.length; i++) {
    PartitionedFile f = files[i];
    if (f.start() + f.length() == f.fileSize()) {
      files[i] = new PartitionedFile(f.partitionValues(), f.filePath(),
          f.start(), Long.MAX_VALUE - f.start(), f.locations(), 0L, f.fileSize(),
          f.otherConstantMetadataColumnValues());
    }
  }
}

private static Seq seq(List items) {
  return ((Iterable) CollectionConverters.asScala(items)).toSeq();
}
