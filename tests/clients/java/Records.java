import com.fasterxml.jackson.databind.JsonNode;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Commands that write and read records. */
final class Records {
    private static final byte[] BLOCK = "abcdefghijklmnopqrstuvwxyz0123456789".repeat(8).getBytes();
    private final String bootstrap;

    Records(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    Map<String, ConformanceClient.Command> commands() {
        return Map.of(
            "produce", this::produce,
            "fetch", this::fetch,
            "readAsGroup", this::readAsGroup,
            "writeNumbered", this::writeNumbered,
            "readDigests", this::readDigests);
    }

    private Object produce(JsonNode arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("acks", arguments.get("acks").asText());
        settings.put("compression.type", arguments.get("compression").asText());
        settings.put("enable.idempotence", arguments.get("idempotent").asText());
        settings.put("max.request.size", arguments.get("bytesMax").asText());
        settings.put("linger.ms", "5");
        settings.put("delivery.timeout.ms", "32000");
        List<List<Long>> receipts = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode message : arguments.get("messages")) {
                sent.add(producer.send(record(arguments.get("topic").asText(), message)));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                receipts.add(List.of((long) one.get().partition(), one.get().offset()));
            }
        }
        return receipts;
    }

    private Object fetch(JsonNode arguments) {
        Properties settings = new Properties();
        settings.put("auto.offset.reset", "none");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            TopicPartition place = new TopicPartition(arguments.get("topic").asText(), arguments.get("partition").asInt());
            consumer.assign(List.of(place));
            consumer.seek(place, arguments.get("offset").asLong());
            return read(consumer, arguments.get("count").asInt(), arguments.get("seconds").asDouble());
        }
    }

    private Object readAsGroup(JsonNode arguments) {
        Properties settings = new Properties();
        settings.put("auto.offset.reset", "earliest");
        settings.put("group.id", arguments.get("group").asText());
        settings.put("session.timeout.ms", "6000");
        settings.put("max.poll.records", arguments.get("count").asText());
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.subscribe(List.of(arguments.get("topic").asText()));
            Object messages = read(consumer, arguments.get("count").asInt(), 20);
            consumer.commitSync();
            return messages;
        }
    }

    private Object writeNumbered(JsonNode arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("linger.ms", "5");
        settings.put("batch.size", "200000");
        try (KafkaProducer<byte[], byte[]> producer = producer(settings)) {
            AtomicReference<Exception> failure = new AtomicReference<>();
            for (int number = 0; number < arguments.get("count").asInt(); number++) {
                for (int partition = 0; partition < arguments.get("partitions").asInt(); partition++) {
                    byte[] value = numbered(partition, number);
                    producer.send(new ProducerRecord<>(arguments.get("topic").asText(), partition, null, value),
                        (stored, error) -> failure.compareAndSet(null, error));
                }
            }
            producer.flush();
            if (failure.get() != null) {
                throw failure.get();
            }
            return null;
        }
    }

    private Object readDigests(JsonNode arguments) throws Exception {
        int partitions = arguments.get("partitions").asInt();
        Map<Integer, MessageDigest> digests = new LinkedHashMap<>();
        List<TopicPartition> places = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            digests.put(partition, MessageDigest.getInstance("SHA-256"));
            places.add(new TopicPartition(arguments.get("topic").asText(), partition));
        }
        Properties settings = new Properties();
        settings.put("max.poll.records", "5000");
        long missing = arguments.get("count").asLong() * partitions;
        long end = System.nanoTime() + 60_000_000_000L;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            consumer.assign(places);
            consumer.seekToBeginning(places);
            while (missing > 0 && System.nanoTime() < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    MessageDigest digest = digests.get(record.partition());
                    if (record.offset() > 0) {
                        digest.update((byte) '\n');
                    }
                    digest.update(record.value());
                    missing--;
                }
            }
        }
        Map<Integer, String> answer = new LinkedHashMap<>();
        digests.forEach((partition, digest) -> answer.put(partition, HexFormat.of().formatHex(digest.digest())));
        return answer;
    }

    private List<Map<String, Object>> read(KafkaConsumer<byte[], byte[]> consumer, int count, double seconds) {
        List<Map<String, Object>> messages = new ArrayList<>();
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (messages.size() < count && System.nanoTime() < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                if (messages.size() < count) {
                    messages.add(described(record));
                }
            }
        }
        return messages;
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode message) throws Exception {
        Long timestamp = message.get("timestamp").isNull() ? null : message.get("timestamp").asLong();
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            topic, message.get("partition").asInt(), timestamp, bytes(message.get("key")), bytes(message.get("value")));
        for (JsonNode header : message.get("headers")) {
            record.headers().add(header.get(0).asText(), bytes(header.get(1)));
        }
        return record;
    }

    private static Map<String, Object> described(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("partition", record.partition());
        message.put("offset", record.offset());
        message.put("timestamp", record.timestamp());
        message.put("key", text(record.key()));
        message.put("value", text(record.value()));
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        message.put("headers", headers);
        return message;
    }

    private static byte[] numbered(int partition, int number) {
        byte[] head = (partition + ":" + number + ":").getBytes();
        int length = (int) ((long) number * 7 % 180);
        byte[] value = java.util.Arrays.copyOf(head, head.length + length);
        System.arraycopy(BLOCK, number % 36, value, head.length, length);
        return value;
    }

    private static byte[] bytes(JsonNode text) throws Exception {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private KafkaProducer<byte[], byte[]> producer(Properties settings) {
        settings.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(Properties settings) {
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.auto.commit", "false");
        // Closing waits for the fetch that is under way, which at the end of a topic takes as long as this.
        settings.put("fetch.max.wait.ms", "50");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
