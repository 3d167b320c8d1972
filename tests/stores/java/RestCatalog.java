import java.util.Map;

import org.apache.paimon.rest.RESTCatalogServer;
import org.apache.paimon.rest.auth.BearTokenAuthProvider;
import org.apache.paimon.rest.responses.ConfigResponse;

/** Java Paimon's REST catalog over a folder: `RestCatalog FOLDER WAREHOUSE TOKEN`. Ends with its input. */
public class RestCatalog {
  public static void main(String[] args) throws Exception {
    ConfigResponse config = new ConfigResponse(Map.of("prefix", "paimon"), Map.of());
    RESTCatalogServer server =
        new RESTCatalogServer(args[0], new BearTokenAuthProvider(args[2]), config, args[1]);
    server.start();
    System.out.println("ready " + server.getUrl().replaceAll("/$", ""));
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
