import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;

/** A Hive metastore with the tables of its locks, which Hive itself makes only when it is installed. */
public class Metastore {
  public static void main(String[] args) throws Throwable {
    HiveConf conf = new HiveConf();
    TxnDbUtil.setConfValues(conf);
    TxnDbUtil.prepDb(conf);
    HiveMetaStore.main(args);
  }
}
