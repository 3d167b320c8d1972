import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;

import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.types.DataTypes;

/**
 * Java Paimon as a service for tests: one JSON call per line on stdin, one JSON reply per line on stdout.
 *
 * <p>A call names its `op` and usually the `path` of a table. A failed call replies {"error": text}; when it
 * names a `group`, later calls of that group reply {"skipped": text}, so that a broken table is not built on.
 * The process ends when stdin does.
 */
public final class PaimonDriver {

    private static final ObjectMapper JSON = new ObjectMapper();

    private PaimonDriver() {}

    public static void main(String[] args) throws Exception {
        PrintStream replies = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Set<String> broken = new HashSet<>();
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            ObjectNode reply = answer(JSON.readTree(line), broken);
            replies.print(JSON.writeValueAsString(reply));
            replies.print('\n');
            replies.flush();
        }
        System.exit(0);
    }

    private static ObjectNode answer(JsonNode call, Set<String> broken) {
        String group = call.path("group").asText("");
        if (broken.contains(group)) {
            return JSON.createObjectNode().put("skipped", "an earlier call of " + group + " failed");
        }
        try {
            return dispatch(call);
        } catch (Throwable failure) {
            if (!group.isEmpty() && !call.path("mayFail").asBoolean(false)) {
                broken.add(group);
            }
            ObjectNode reply = JSON.createObjectNode().put("error", chain(failure));
            if (call.path("trace").asBoolean(false)) {
                failure.printStackTrace();
            }
            return reply;
        }
    }

    private static String chain(Throwable failure) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            text.append(text.length() > 0 ? " <- " : "").append(cause);
        }
        return text.toString();
    }

    private static ObjectNode dispatch(JsonNode call) throws Exception {
        switch (call.get("op").asText()) {
            case "read":
                return Reads.read(call);
            case "versions":
                return Reads.versions(call);
            case "changes":
                return Reads.changes(call);
            case "stream":
                return Streams.stream(call);
            case "uncommitted":
                return Streams.uncommitted(call);
            case "listing":
                return Reads.listing(call);
            case "files":
                return Reads.files(call);
            case "write":
                return Writes.write(call);
            case "compact":
                return Rewrites.compact(call);
            case "deleteRows":
                return Rewrites.deleteRows(call);
            case "updateRows":
                return Rewrites.updateRows(call);
            case "bench":
                return Benches.measure(call);
            case "catalog":
                return Catalogs.call(call);
            case "variant":
                return (ObjectNode) Values.toJson(
                        Values.fromJson(call.get("text"), DataTypes.VARIANT()), DataTypes.VARIANT());
            default:
                return Tables.change(call);
        }
    }
}
