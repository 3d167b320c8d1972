import java.lang.reflect.Field;
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

/**
 * Gives a session a catalog under a name, and returns whether it did: not one that the session has under the name, unless
 * `replaces`. `session`: or its catalog manager, while Spark makes the session.
 */
public boolean put(Object session, String name, Object catalog, boolean replaces) throws IllegalAccessException {
  Object manager = manager(session);
  synchronized (manager) {  // as Spark does
    scala.collection.mutable.HashMap catalogs = catalogs(manager);
    boolean puts = replaces || !catalogs.contains(name);
    if (puts) {
      catalogs.put(name, catalog);
    }
    return puts;
  }
}

/** Takes a catalog away from a session. */
public void remove(Object session, String name) throws IllegalAccessException {
  Object manager = manager(session);
  synchronized (manager) {
    catalogs(manager).remove(name);
  }
}

private static Object manager(Object session) {
  return session instanceof SparkSession ? ((SparkSession) session).sessionState().catalogManager() : session;
}

/** Spark's private map of catalogs by name. */
private static scala.collection.mutable.HashMap catalogs(Object manager) throws IllegalAccessException {
  for (Class type = manager.getClass(); type != null; type = type.getSuperclass()) {
    Field[] fields = type.getDeclaredFields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].getName().equals("catalogs") || fields[i].getName().endsWith("$$catalogs")) {
        fields[i].setAccessible(true);
        return (scala.collection.mutable.HashMap) fields[i].get(manager);
      }
    }
  }
  throw new IllegalStateException(manager.getClass().getName() + " has no field catalogs");
}
