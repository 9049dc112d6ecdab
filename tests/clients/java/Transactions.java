import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Commands of transactional producers, which stay open under a number, and of consumers that read committed records. */
final class Transactions {
    private final String bootstrap;
    private final Map<Integer, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    Transactions(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    Map<String, ConformanceClient.Command> commands() {
        return Map.of(
            "openTransactional", this::open,
            "beginTransaction", arguments -> done(() -> of(arguments).beginTransaction()),
            "sendInTransaction", this::send,
            "commitOffsetsInTransaction", this::commitOffsets,
            "commitTransaction", arguments -> done(() -> of(arguments).commitTransaction()),
            "abortTransaction", arguments -> done(() -> of(arguments).abortTransaction()),
            "closeTransactional", arguments -> done(() -> of(arguments).close(Duration.ZERO)),
            "readToEnd", this::readToEnd,
            "endOffset", this::endOffset);
    }

    private Object open(JsonNode arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", arguments.get("id").asText());
        settings.put("transaction.timeout.ms", arguments.get("timeoutMs").asText());
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producers.put(producers.size(), producer);
        producer.initTransactions();
        return producers.size() - 1;
    }

    private KafkaProducer<byte[], byte[]> of(JsonNode arguments) {
        return producers.get(arguments.get("producer").asInt());
    }

    private static Object done(Runnable work) {
        work.run();
        return null;
    }

    private Object send(JsonNode arguments) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode value : arguments.get("values")) {
            byte[] bytes = Base64.getDecoder().decode(value.asText());
            int partition = arguments.get("partition").asInt();
            sent.add(of(arguments).send(new ProducerRecord<>(arguments.get("topic").asText(), partition, null, bytes)));
        }
        of(arguments).flush();
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
        return null;
    }

    private Object commitOffsets(JsonNode arguments) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        arguments.get("offsets").fields().forEachRemaining(one -> offsets.put(
            new TopicPartition(arguments.get("topic").asText(), Integer.parseInt(one.getKey())),
            new OffsetAndMetadata(one.getValue().asLong())));
        of(arguments).sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(arguments.get("group").asText()));
        return null;
    }

    private Object readToEnd(JsonNode arguments) {
        TopicPartition place = place(arguments);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(arguments.get("committed").asBoolean())) {
            long end = consumer.endOffsets(List.of(place)).get(place);
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            while (consumer.position(place) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(Base64.getEncoder().encodeToString(record.value()));
                }
            }
        }
        return values;
    }

    private Object endOffset(JsonNode arguments) {
        TopicPartition place = place(arguments);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(arguments.get("committed").asBoolean())) {
            return consumer.endOffsets(List.of(place)).get(place);
        }
    }

    private static TopicPartition place(JsonNode arguments) {
        return new TopicPartition(arguments.get("topic").asText(), arguments.get("partition").asInt());
    }

    private KafkaConsumer<byte[], byte[]> consumer(boolean committed) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        settings.put("fetch.max.wait.ms", "50");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
