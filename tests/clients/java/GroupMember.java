import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a consumer group that tells on standard output what happens to it, until it is stopped. */
public final class GroupMember {
    /** Offsets that were read of the partitions that the member has, and not committed yet. */
    private static final Map<Integer, List<Long>> uncommitted = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (int place = 0; place < arguments.length; place += 2) {
            given.put(arguments[place], arguments[place + 1]);
        }
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(settings(given), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Thread reader = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                reader.join(8000);
            } catch (InterruptedException ignored) {
                Thread.currentThread().interrupt();
            }
        }));
        consumer.subscribe(List.of(given.get("--topic")), new Teller());
        try {
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    System.out.println("read " + record.partition() + " " + record.offset());
                    uncommitted.computeIfAbsent(record.partition(), number -> new ArrayList<>()).add(record.offset());
                }
                System.out.flush();
                if (!uncommitted.isEmpty()) {
                    commit(consumer);
                }
            }
        } catch (WakeupException stopped) {
            // asked to stop
        } finally {
            consumer.close();
        }
    }

    /**
     * A rebalance may forbid a commit. It is repeated the next time; what was read of a partition that the rebalance
     * takes is then read again, which is allowed.
     */
    private static void commit(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            try {
                consumer.commitSync();
            } catch (WakeupException stopped) {
                consumer.commitSync();
                consumer.wakeup();
            }
            uncommitted.forEach((partition, offsets) ->
                offsets.forEach(offset -> System.out.println("committed " + partition + " " + offset)));
            uncommitted.clear();
            System.out.flush();
        } catch (org.apache.kafka.clients.consumer.CommitFailedException
            | org.apache.kafka.common.errors.RebalanceInProgressException rebalanced) {
            System.err.println("commit came too late: " + rebalanced);
        }
    }

    private static Properties settings(Map<String, String> given) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given.get("--bootstrap"));
        settings.put("group.id", given.get("--group"));
        settings.put("group.protocol", given.get("--protocol"));
        if (given.get("--protocol").equals("classic")) {
            settings.put("session.timeout.ms", given.get("--session-ms"));
            settings.put("heartbeat.interval.ms", given.get("--heartbeat-ms"));
        }
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (!given.get("--instance-id").isEmpty()) {
            settings.put("group.instance.id", given.get("--instance-id"));
        }
        if (given.get("--cooperative").equals("1")) {
            settings.put("partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
        }
        return settings;
    }

    private static final class Teller implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            partitions.forEach(one -> uncommitted.remove(one.partition()));
            tell("revoked", partitions);
        }

        private static void tell(String word, Collection<TopicPartition> partitions) {
            String numbers = partitions.stream().map(one -> " " + one.partition()).collect(Collectors.joining());
            System.out.println(word + numbers);
            System.out.flush();
        }
    }
}
