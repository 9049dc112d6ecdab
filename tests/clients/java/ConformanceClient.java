import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Kafka's own Java client behind a line protocol: one JSON command in, one JSON answer out.
 *
 * <p>A command is {"do": "createTopic", ...}; the answer is {"answer": ...} or {"error": code, "message": ...}. Bytes
 * travel as Base64. The names of commands are those of the methods of Records and Admin.
 */
public final class ConformanceClient {
    static final ObjectMapper JSON = new ObjectMapper();

    interface Command {
        Object run(JsonNode arguments) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        // Standard output carries answers only: whatever else wants to print goes to the error stream.
        PrintStream answers = System.out;
        System.setOut(System.err);
        Records records = new Records(arguments[0]);
        try (Administration administration = new Administration(arguments[0])) {
            Map<String, Command> commands = new java.util.HashMap<>(records.commands());
            commands.putAll(administration.commands());
            commands.putAll(new Transactions(arguments[0]).commands());
            commands.putAll(new ShareGroups(arguments[0]).commands());
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answers.println(answer(commands, JSON.readTree(line)));
                answers.flush();
            }
        }
    }

    private static String answer(Map<String, Command> commands, JsonNode asked) throws Exception {
        ObjectNode said = JSON.createObjectNode();
        try {
            said.set("answer", JSON.valueToTree(commands.get(asked.get("do").asText()).run(asked)));
        } catch (Exception error) {
            Throwable cause = error;
            while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null) {
                cause = cause.getCause();
            }
            // The consumer has an exception of its own for this one, which the table of errors does not know.
            boolean outOfRange = cause instanceof OffsetOutOfRangeException;
            said.put("error", outOfRange ? Errors.OFFSET_OUT_OF_RANGE.code() : Errors.forException(cause).code());
            said.put("message", cause.toString());
        }
        return JSON.writeValueAsString(said);
    }
}
