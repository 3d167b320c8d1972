import org.apache.commons.lang3.StringUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;

/**
 * The current catalog, the current namespace with dots, the time zone, and the settings of a session, between
 * `separator`; settings stand between `ofSettings`, as `key -> value`.
 */
public String describe(Object session, String separator, String ofSettings) {
  SparkSession found = (SparkSession) session;
  CatalogManager catalogs = found.sessionState().catalogManager();
  return catalogs.currentCatalog().name() + separator + StringUtils.join(catalogs.currentNamespace(), ".") + separator
      + found.sessionState().conf().sessionLocalTimeZone() + separator
      + found.conf().getAll().mkString(ofSettings);
}
