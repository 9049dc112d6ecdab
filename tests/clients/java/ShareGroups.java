import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Commands of share consumers, which stay open under a number, and of those who look after their groups. */
final class ShareGroups {
    private final String bootstrap;
    private final Map<Integer, KafkaShareConsumer<byte[], byte[]>> consumers = new HashMap<>();
    /** By consumer, topic, partition and offset. */
    private final Map<List<Object>, ConsumerRecord<byte[], byte[]>> polled = new HashMap<>();

    ShareGroups(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    Map<String, ConformanceClient.Command> commands() {
        Map<String, ConformanceClient.Command> commands = new HashMap<>();
        commands.put("openShare", this::open);
        commands.put("pollShare", this::poll);
        commands.put("acknowledgeShare", this::acknowledge);
        commands.put("commitShare", this::commit);
        commands.put("closeShare", arguments -> {
            of(arguments).close(Duration.ofSeconds(5));
            return null;
        });
        commands.put("configureGroup", arguments -> with(admin -> {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, arguments.get("group").asText());
            Collection<AlterConfigOp> changes = new ArrayList<>();
            arguments.get("configs").fields().forEachRemaining(one -> changes.add(new AlterConfigOp(
                new ConfigEntry(one.getKey(), one.getValue().asText()), AlterConfigOp.OpType.SET)));
            return admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
        }));
        commands.put("groupConfigs", arguments -> with(admin -> {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, arguments.get("group").asText());
            Map<String, String> found = new HashMap<>();
            admin.describeConfigs(Set.of(group)).all().get().get(group).entries()
                .forEach(entry -> found.put(entry.name(), entry.value()));
            return found;
        }));
        commands.put("shareGroups", arguments -> with(admin -> {
            Map<String, String> found = new HashMap<>();
            ListGroupsOptions share = new ListGroupsOptions().withTypes(Set.of(GroupType.SHARE));
            for (GroupListing one : admin.listGroups(share).all().get()) {
                found.put(one.groupId(), one.groupState().map(Object::toString).orElse(""));
            }
            return found;
        }));
        commands.put("describeShareGroup", arguments -> with(admin -> {
            String group = arguments.get("group").asText();
            ShareGroupDescription found = admin.describeShareGroups(Set.of(group)).all().get().get(group);
            List<Integer> sizes = new ArrayList<>();
            found.members().forEach(one -> sizes.add(one.assignment().topicPartitions().size()));
            return List.of(found.groupState().toString(), sizes);
        }));
        commands.put("shareOffsets", arguments -> with(admin -> {
            String group = arguments.get("group").asText();
            Map<String, Object> found = new HashMap<>();
            admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
                .partitionsToOffsetInfo(group).get().forEach((where, offset) -> found.put(
                    where.toString(), offset == null ? null : List.of(offset.startOffset(), offset.lag().orElse(-1L))));
            return found;
        }));
        commands.put("alterShareOffsets", arguments -> with(admin -> {
            Map<TopicPartition, Long> offsets = new HashMap<>();
            arguments.get("offsets").fields().forEachRemaining(one -> offsets.put(
                new TopicPartition(arguments.get("topic").asText(), Integer.parseInt(one.getKey())),
                one.getValue().asLong()));
            return admin.alterShareGroupOffsets(arguments.get("group").asText(), offsets).all().get();
        }));
        commands.put("deleteShareOffsets", arguments -> with(admin -> admin.deleteShareGroupOffsets(
            arguments.get("group").asText(), Set.of(arguments.get("topic").asText())).all().get()));
        commands.put("deleteShareGroup", arguments -> with(admin ->
            admin.deleteShareGroups(List.of(arguments.get("group").asText())).all().get()));
        return commands;
    }

    private interface Asking {
        Object ask(Admin admin) throws Exception;
    }

    private Object with(Asking asking) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            return asking.ask(admin);
        }
    }

    private KafkaShareConsumer<byte[], byte[]> of(JsonNode arguments) {
        return consumers.get(arguments.get("consumer").asInt());
    }

    private Object open(JsonNode arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", arguments.get("group").asText());
        settings.put("share.acknowledgement.mode", arguments.get("explicit").asBoolean() ? "explicit" : "implicit");
        settings.put("share.acquire.mode", arguments.get("strict").asBoolean() ? "record_limit" : "batch_optimized");
        settings.put("max.poll.records", arguments.get("recordsMax").asText());
        KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(arguments.get("topic").asText()));
        consumers.put(consumers.size(), consumer);
        return consumers.size() - 1;
    }

    private Object poll(JsonNode arguments) {
        List<List<Object>> found = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : of(arguments).poll(Duration.ofMillis(arguments.get("ms").asLong()))) {
            int deliveries = record.deliveryCount().map(Short::intValue).orElse(-1);
            String value = Base64.getEncoder().encodeToString(record.value());
            polled.put(key(arguments, record.topic(), record.partition(), record.offset()), record);
            found.add(List.of(record.topic(), record.partition(), record.offset(), value, deliveries));
        }
        return found;
    }

    private Object acknowledge(JsonNode arguments) {
        AcknowledgeType type = AcknowledgeType.valueOf(arguments.get("type").asText().toUpperCase());
        List<Object> key = key(arguments, arguments.get("topic").asText(), arguments.get("partition").asInt(),
            arguments.get("offset").asLong());
        of(arguments).acknowledge(polled.get(key), type);
        return null;
    }

    private static List<Object> key(JsonNode arguments, String topic, int partition, long offset) {
        return List.of(arguments.get("consumer").asInt(), topic, partition, offset);
    }

    private Object commit(JsonNode arguments) {
        Map<String, Integer> codes = new HashMap<>();
        Map<TopicIdPartition, Optional<KafkaException>> outcome = of(arguments).commitSync();
        outcome.forEach((where, error) -> codes.put(
            Integer.toString(where.partition()), error.map(one -> (int) Errors.forException(one).code()).orElse(0)));
        return codes;
    }
}
