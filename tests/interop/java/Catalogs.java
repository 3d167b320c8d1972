import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.Options;
import org.apache.paimon.partition.Partition;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.view.View;
import org.apache.paimon.view.ViewImpl;

/** Calls on a catalog: `path` is the warehouse, `catalog` options of a catalog with a metastore. */
final class Catalogs {

    private static final Map<Map<String, String>, Catalog> OPENED = new HashMap<>();

    private Catalogs() {}

    /** Whether a call on a table is about `table`, as `db.t`, of the catalog with the options `catalog`. */
    static boolean isNamed(JsonNode call) {
        return call.hasNonNull("catalog") && call.hasNonNull("table");
    }

    /** The catalog of a call. */
    static Catalog of(JsonNode call) {
        Map<String, String> options = Values.strings(call.get("catalog"));
        return OPENED.computeIfAbsent(
                options, key -> CatalogFactory.createCatalog(CatalogContext.create(Options.fromMap(key))));
    }

    /** The table of a call. */
    static Identifier identifier(JsonNode call) {
        return Identifier.fromString(call.get("table").asText());
    }

    static ObjectNode call(JsonNode call) throws Exception {
        ObjectNode reply = Values.JSON.createObjectNode();
        Options options =
                call.hasNonNull("catalog") ? Options.fromMap(Values.strings(call.get("catalog"))) : new Options();
        if (call.hasNonNull("path")) {
            options.set("warehouse", Tables.path(call).toString());
        }
        String database = call.path("database").asText(null);
        try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
            switch (call.get("does").asText()) {
                case "listDatabases":
                    names(reply, catalog.listDatabases());
                    break;
                case "listTables":
                    names(reply, catalog.listTables(database));
                    break;
                case "removeOrphans":
                    reply.put("removed", LocalOrphanFilesClean.executeDatabaseOrphanFiles(
                            catalog, database, null, Long.MAX_VALUE, 1, false).getDeletedFileCount());
                    break;
                case "createTable":
                    catalog.createDatabase(database, true);
                    catalog.createTable(
                            Identifier.create(database, call.get("table").asText()),
                            Schema.newBuilder()
                                    .column("k", DataTypes.INT())
                                    .option("type", call.get("type").asText())
                                    .option("file.format", "csv")
                                    .build(),
                            false);
                    break;
                case "createView":
                    Identifier view = Identifier.create(database, call.get("view").asText());
                    String query = call.get("query").asText();
                    catalog.createView(
                            view,
                            new ViewImpl(
                                    view,
                                    List.of(new DataField(0, "k", DataTypes.BIGINT())),
                                    query,
                                    Map.of("spark", query),
                                    "of Java",
                                    Map.of("a", "b")),
                            false);
                    break;
                case "getView":
                    View found = catalog.getView(Identifier.create(database, call.get("view").asText()));
                    reply.put("query", found.query("spark"));
                    reply.put("comment", found.comment().orElse(null));
                    reply.put("columns", found.rowType().toString());
                    break;
                case "listViews":
                    names(reply, catalog.listViews(database));
                    break;
                case "dropView":
                    catalog.dropView(Identifier.create(database, call.get("view").asText()), false);
                    break;
                case "listPartitions":
                    ArrayNode partitions = reply.putArray("partitions");
                    for (Partition p : catalog.listPartitions(
                            Identifier.create(database, call.get("table").asText()))) {
                        ObjectNode one = partitions.addObject();
                        p.spec().forEach(one.putObject("spec")::put);
                        one.put("rows", p.recordCount()).put("bytes", p.fileSizeInBytes()).put("files", p.fileCount());
                        one.put("updated_ms", p.lastFileCreationTime()).put("buckets", p.totalBuckets());
                    }
                    break;
                case "createDatabase":
                    catalog.createDatabase(database, false);
                    break;
                case "renameTable":
                    catalog.renameTable(
                            Identifier.fromString(call.get("table").asText()),
                            Identifier.fromString(call.get("to").asText()),
                            false);
                    break;
                case "dropTable":
                    catalog.dropTable(Identifier.create(database, call.get("table").asText()), false);
                    break;
                case "dropDatabase":
                    catalog.dropDatabase(database, false, call.path("cascade").asBoolean(false));
                    break;
                default:
                    throw new IllegalArgumentException("a catalog does not " + call.get("does"));
            }
        }
        return reply.put("ok", true);
    }

    private static void names(ObjectNode reply, List<String> found) {
        ArrayNode names = reply.putArray("names");
        found.stream().sorted().forEach(names::add);
    }
}
