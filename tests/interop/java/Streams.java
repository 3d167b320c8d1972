import java.util.ArrayList;
import java.util.List;

import org.apache.paimon.manifest.ManifestCommittable;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.RowType;

/** Streams as a streaming job runs them: plans until there is none, and what a committer takes for committed. */
final class Streams {

    private Streams() {}

    /**
     * Plans of a streaming read, each with the snapshot it is of and its rows with their kinds.
     *
     * <p>`options` say where it starts; `restore` goes on with a snapshot instead, as a job does from its checkpoint;
     * `schemaId` is the schema that the job was started with; `plans` is how many plans to make at most; `notify` tells
     * the consumer after every plan. The reply has `next`, to be restored with, and `ended` where a bound was reached.
     */
    static ObjectNode stream(JsonNode call) throws Exception {
        FileStoreTable table = Tables.openPlain(call).copyWithoutTimeTravel(Values.strings(call.get("options")));
        if (call.hasNonNull("schemaId")) {
            table = table.copy(Tables.schemas(call).schema(call.get("schemaId").asLong()).copy(table.options()));
        }
        RowType type = table.rowType();
        ReadBuilder builder = table.newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        if (call.hasNonNull("restore")) {
            scan.restore(call.get("restore").asLong());
        }
        TableRead read = builder.newRead().withIOManager(Tables.spillArea());
        int most = call.path("plans").asInt(Integer.MAX_VALUE);
        ObjectNode reply = Values.JSON.createObjectNode();
        reply.put("schemaId", table.schema().id());
        ArrayNode plans = reply.putArray("plans");
        boolean ended = false;
        while (plans.size() < most) {
            Long before = scan.checkpoint();
            TableScan.Plan plan;
            try {
                plan = scan.plan();
            } catch (EndOfScanException end) {
                ended = true;
                break;
            }
            Long after = scan.checkpoint();
            if (plan.splits().isEmpty() && (after == null || before != null)) {
                break;
            }
            if (!plan.splits().isEmpty()) {
                ObjectNode node = plans.addObject().put("snapshot", after - 1).put("first", before == null);
                node.put("watermark", scan.watermark());
                Reads.drain(read, plan.splits(), type, true, node.putArray("rows"));
            }
            if (call.path("notify").asBoolean(false)) {
                scan.notifyCheckpointComplete(after);
            }
        }
        return reply.put("next", scan.checkpoint()).put("ended", ended);
    }

    /** Which of the `identifiers` of `user` a committer that starts anew would commit, since they are not there. */
    static ObjectNode uncommitted(JsonNode call) throws Exception {
        FileStoreTable table = Tables.open(call);
        List<ManifestCommittable> asked = new ArrayList<>();
        call.get("identifiers").forEach(id -> asked.add(new ManifestCommittable(id.asLong())));
        ObjectNode reply = Values.JSON.createObjectNode();
        ArrayNode missing = reply.putArray("uncommitted");
        String user = call.get("user").asText();
        table.store().newCommit(user, table).filterCommitted(asked).forEach(one -> missing.add(one.identifier()));
        return reply;
    }
}
