import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ReplicaInfo;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Commands of the administrator. */
final class Administration implements AutoCloseable {
    private final Admin admin;

    Administration(String bootstrap) {
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", "30000"));
    }

    @Override
    public void close() {
        admin.close();
    }

    Map<String, ConformanceClient.Command> commands() {
        Map<String, ConformanceClient.Command> commands = new HashMap<>();
        commands.put("topics", this::topics);
        commands.put("createTopic", this::createTopic);
        commands.put("deleteTopic", asked -> admin.deleteTopics(List.of(topic(asked))).all().get());
        commands.put("createPartitions", this::createPartitions);
        commands.put("describeTopic", this::describeTopic);
        commands.put("deleteRecords", this::deleteRecords);
        commands.put("describeConfigs", this::describeConfigs);
        commands.put("alterConfigs", this::alterConfigs);
        commands.put("describeCluster", this::describeCluster);
        commands.put("logBytes", this::logBytes);
        commands.put("offsetAt", this::offsetAt);
        commands.put("groups", this::groups);
        commands.put("groupsInState", this::groupsInState);
        commands.put("removeMember", this::removeMember);
        commands.put("describeNode", this::describeNode);
        commands.put("describeGroup", this::describeGroup);
        commands.put("deleteGroup", asked -> admin.deleteConsumerGroups(List.of(group(asked))).all().get());
        commands.put("commit", this::commit);
        commands.put("committed", this::committed);
        commands.put("deleteOffsets", this::deleteOffsets);
        return commands;
    }

    private Object topics(JsonNode asked) throws Exception {
        Map<String, Integer> counts = new LinkedHashMap<>();
        Set<String> names = admin.listTopics().names().get();
        for (var described : admin.describeTopics(names).topicNameValues().entrySet()) {
            try {
                counts.put(described.getKey(), described.getValue().get().partitions().size());
            } catch (ExecutionException error) {
                // Deleted between the two questions.
                if (!(error.getCause() instanceof UnknownTopicOrPartitionException)) {
                    throw error;
                }
            }
        }
        return counts;
    }

    private Object createTopic(JsonNode asked) throws Exception {
        NewTopic topic = new NewTopic(topic(asked), asked.get("partitions").asInt(), (short) 1);
        Map<String, String> configs = new HashMap<>();
        asked.get("configs").properties().forEach(one -> configs.put(one.getKey(), one.getValue().asText()));
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(asked.get("validateOnly").asBoolean());
        return admin.createTopics(List.of(topic.configs(configs)), options).all().get();
    }

    private Object createPartitions(JsonNode asked) throws Exception {
        NewPartitions wanted = NewPartitions.increaseTo(asked.get("total").asInt());
        return admin.createPartitions(Map.of(topic(asked), wanted)).all().get();
    }

    private Object describeTopic(JsonNode asked) throws Exception {
        TopicDescription described = admin.describeTopics(List.of(topic(asked))).allTopicNames().get().get(topic(asked));
        List<Object> partitions = new ArrayList<>();
        for (TopicPartitionInfo one : described.partitions()) {
            List<Integer> replicas = one.replicas().stream().map(Node::id).toList();
            List<Integer> inSync = one.isr().stream().map(Node::id).toList();
            partitions.add(List.of(one.partition(), one.leader().id(), replicas, inSync));
        }
        return partitions;
    }

    private Object deleteRecords(JsonNode asked) throws Exception {
        Map<TopicPartition, RecordsToDelete> wanted =
            Map.of(place(asked), RecordsToDelete.beforeOffset(asked.get("before").asLong()));
        return admin.deleteRecords(wanted).lowWatermarks().get(place(asked)).get().lowWatermark();
    }

    private Object describeConfigs(JsonNode asked) throws Exception {
        return configs(resource(asked));
    }

    private Object describeNode(JsonNode asked) throws Exception {
        String node = admin.describeCluster().nodes().get().iterator().next().idString();
        return configs(new ConfigResource(ConfigResource.Type.BROKER, node));
    }

    private Map<String, String> configs(ConfigResource resource) throws Exception {
        Map<String, String> configs = new LinkedHashMap<>();
        admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()
            .forEach(entry -> configs.put(entry.name(), entry.value()));
        return configs;
    }

    private Object alterConfigs(JsonNode asked) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        for (JsonNode change : asked.get("changes")) {
            String value = change.get(2).isNull() ? null : change.get(2).asText();
            AlterConfigOp.OpType operation = AlterConfigOp.OpType.valueOf(change.get(1).asText().toUpperCase());
            changes.add(new AlterConfigOp(new ConfigEntry(change.get(0).asText(), value), operation));
        }
        return admin.incrementalAlterConfigs(Map.of(resource(asked), changes)).all().get();
    }

    private Object describeCluster(JsonNode asked) throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        List<String> nodes = cluster.nodes().get().stream().map(node -> node.host() + ":" + node.port()).toList();
        return List.of(cluster.clusterId().get(), cluster.controller().get().id(), nodes);
    }

    private Object logBytes(JsonNode asked) throws Exception {
        Map<Integer, Long> sizes = new LinkedHashMap<>();
        List<Integer> nodes = admin.describeCluster().nodes().get().stream().map(Node::id).toList();
        for (Map<String, LogDirDescription> folders : admin.describeLogDirs(nodes).allDescriptions().get().values()) {
            for (LogDirDescription folder : folders.values()) {
                for (Map.Entry<TopicPartition, ReplicaInfo> replica : folder.replicaInfos().entrySet()) {
                    if (replica.getKey().topic().equals(topic(asked))) {
                        sizes.put(replica.getKey().partition(), replica.getValue().size());
                    }
                }
            }
        }
        return sizes;
    }

    private Object offsetAt(JsonNode asked) throws Exception {
        OffsetSpec wanted = switch (asked.get("place").asText()) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "newest" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(asked.get("place").asLong());
        };
        return admin.listOffsets(Map.of(place(asked), wanted)).partitionResult(place(asked)).get().offset();
    }

    private Object groups(JsonNode asked) throws Exception {
        return admin.listGroups().all().get().stream().map(GroupListing::groupId).toList();
    }

    private Object groupsInState(JsonNode asked) throws Exception {
        ListGroupsOptions options = new ListGroupsOptions().inGroupStates(Set.of(GroupState.parse(asked.get("state").asText())));
        return admin.listGroups(options).all().get().stream().map(GroupListing::groupId).toList();
    }

    private Object removeMember(JsonNode asked) throws Exception {
        MemberToRemove member = new MemberToRemove(asked.get("instance").asText());
        RemoveMembersFromConsumerGroupOptions options = new RemoveMembersFromConsumerGroupOptions(Set.of(member));
        return admin.removeMembersFromConsumerGroup(group(asked), options).all().get();
    }

    private Object describeGroup(JsonNode asked) throws Exception {
        var described = admin.describeConsumerGroups(List.of(group(asked))).all().get().get(group(asked));
        List<Object> members = new ArrayList<>();
        for (MemberDescription member : described.members()) {
            List<Object> assigned = new ArrayList<>();
            member.assignment().topicPartitions().forEach(one -> assigned.add(List.of(one.topic(), one.partition())));
            members.add(assigned);
        }
        return List.of(described.groupState().toString(), members);
    }

    private Object commit(JsonNode asked) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        asked.get("offsets").properties().forEach(one -> offsets.put(
            new TopicPartition(topic(asked), Integer.parseInt(one.getKey())), new OffsetAndMetadata(one.getValue().asLong())));
        return admin.alterConsumerGroupOffsets(group(asked), offsets).all().get();
    }

    private Object committed(JsonNode asked) throws Exception {
        Map<Integer, Long> offsets = new LinkedHashMap<>();
        admin.listConsumerGroupOffsets(group(asked)).partitionsToOffsetAndMetadata().get().forEach((place, one) -> {
            if (place.topic().equals(topic(asked)) && one != null) {
                offsets.put(place.partition(), one.offset());
            }
        });
        return offsets;
    }

    private Object deleteOffsets(JsonNode asked) throws Exception {
        Set<TopicPartition> places = new HashSet<>();
        asked.get("partitions").forEach(one -> places.add(new TopicPartition(topic(asked), one.asInt())));
        return admin.deleteConsumerGroupOffsets(group(asked), places).all().get();
    }

    private static String topic(JsonNode asked) {
        return asked.get("topic").asText();
    }

    private static String group(JsonNode asked) {
        return asked.get("group").asText();
    }

    private static TopicPartition place(JsonNode asked) {
        return new TopicPartition(topic(asked), asked.get("partition").asInt());
    }

    private static ConfigResource resource(JsonNode asked) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic(asked));
    }
}
