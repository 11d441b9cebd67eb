"""A real Kafka broker for tests: one node that is its own controller, with clients beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaMember
from py4j.protocol import STATIC_PREFIX, Py4JError

from benchmarks.common import free_ports
from tests.support.jvm import lab_folder, start_jvm, texts

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config={login} user_reader="{password}";
log.dirs={folder}/logs
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.retention.hours=-1
"""
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGGING = """
<Configuration status="ERROR"><Appenders><Console name="C"><PatternLayout pattern="%d %p %c{1} %m%n"
/></Console></Appenders><Loggers><Root level="WARN"><AppenderRef ref="C"/></Root></Loggers>
</Configuration>
"""
BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"

PASSWORD = "word-of-the-reader"
Message = tuple[bytes | None, bytes | None]  # key, value


def kafka_lib() -> Path | None:
    """Folder of the jars of a Kafka broker: kafka/lib in the folder that CDC_LAB names."""
    return lab_folder("kafka", "lib", holds="kafka_2.13-*.jar")


class KafkaBroker:
    """A broker on free ports of 127.0.0.1, and an admin and producers in the same JVM.

    Attributes:
        servers: address that anybody may use.
        sasl_servers: address that asks for a password; see `login`.

    Args:
        folder: its own folder for data, settings and log.
        lib: folder of Kafka's jars.

    Raises:
        RuntimeError: it did not start; the message ends with what it printed.
    """

    def __init__(self, folder: Path, lib: Path) -> None:
        port, sasl, controller = free_ports(3)
        self.servers, self.sasl_servers = f"127.0.0.1:{port}", f"127.0.0.1:{sasl}"
        self._folder, self._lib = folder, lib
        (folder / "log4j2.xml").write_text(LOGGING.lstrip())
        self._settings = folder / "server.properties"
        self._settings.write_text(
            PROPERTIES.format(
                port=port,
                sasl=sasl,
                controller=controller,
                folder=folder,
                login=LOGIN,
                password=PASSWORD,
            )
        )
        self.start()

    def start(self) -> None:
        """Start the broker; after `kill` on the data and the ports that it had."""
        folder = self._folder
        self._printed = (folder / "broker.log").open("a")
        options = ["-Xmx384m", f"-Dlog4j2.configurationFile={folder}/log4j2.xml"]
        self._gateway, self._process = start_jvm(f"{self._lib}/*", options, self._printed)
        self._jvm: Any = self._gateway.jvm
        try:
            self._server = self._start()
        except Py4JError as exc:
            self._gateway.shutdown()
            printed = (folder / "broker.log").read_text(errors="replace")
            raise RuntimeError(f"The Kafka broker did not start: {exc}\n{printed[-2000:]}") from exc
        self.kafka = self._jvm.org.apache.kafka
        self._admin = self.kafka.clients.admin.Admin.create({"bootstrap.servers": self.servers})

    def _start(self) -> Any:
        jvm = self._jvm
        if not (self._folder / "logs" / "meta.properties").exists():
            cluster = jvm.org.apache.kafka.common.Uuid.randomUuid().toString()
            arguments = texts(self._gateway, "format", "-t", cluster, "-c", str(self._settings))
            jvm.kafka.tools.StorageTool.execute(arguments, jvm.java.lang.System.out)
        loaded = jvm.org.apache.kafka.common.utils.Utils.loadProps(str(self._settings))
        config = jvm.kafka.server.KafkaConfig(loaded)
        server = jvm.kafka.server.KafkaRaftServer(
            config, jvm.org.apache.kafka.common.utils.Time.SYSTEM
        )
        server.startup()
        return server

    def kill(self) -> None:
        """End the broker as kill -9 does."""
        self._process.kill()
        self._process.wait()
        self._gateway.close()
        self._printed.close()

    def stop(self) -> None:
        """Stop the broker and its JVM."""
        self._admin.close()
        self._server.shutdown()
        self._gateway.shutdown()
        self._printed.close()

    def ends(self, topic: str, partitions: int) -> list[int]:
        """The offset behind the last message, of each partition."""
        latest = self.kafka.clients.admin.OffsetSpec.latest()
        places = [self.kafka.common.TopicPartition(topic, number) for number in range(partitions)]
        found = self._admin.listOffsets(dict.fromkeys(places, latest)).all().get()
        return [found[place].offset() for place in places]

    def create(self, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        made = self.kafka.clients.admin.NewTopic(topic, partitions, self._short(1))
        made.configs(config or {})
        self._admin.createTopics([made]).all().get()

    def delete(self, topic: str) -> None:
        self._admin.deleteTopics([topic]).all().get()

    def add_partitions(self, topic: str, total: int) -> None:
        """Let the topic have `total` partitions."""
        more = self.kafka.clients.admin.NewPartitions.increaseTo(total)
        self._admin.createPartitions({topic: more}).all().get()

    def lose(self, topic: str, partition: int, before: int) -> None:
        """Delete the messages with an offset below `before`, as retention does."""
        place = self.kafka.common.TopicPartition(topic, partition)
        # an instance has a method of that name as well, which hides the class's own from py4j
        kind = self.kafka.clients.admin.RecordsToDelete
        method = JavaMember(
            "beforeOffset", None, STATIC_PREFIX + kind._fqn, self._gateway._gateway_client
        )
        records = method(before)
        self._admin.deleteRecords({place: records}).all().get()

    def send(
        self,
        topic: str,
        messages: Iterable[Message],
        partition: int = 0,
        transaction: bool | None = None,
    ) -> None:
        """Send messages and wait until the broker has them.

        Args:
            transaction: True for a committed transaction, False for an aborted transaction, None
                without any.
        """
        options = {
            "bootstrap.servers": self.servers,
            "key.serializer": BYTES,
            "value.serializer": BYTES,
            **({"transactional.id": "test"} if transaction is not None else {}),
        }
        producer = self.kafka.clients.producer.KafkaProducer(options)
        number = self._jvm.java.lang.Integer.valueOf(partition)
        if transaction is not None:
            producer.initTransactions()
            producer.beginTransaction()
        for key, value in messages:
            producer.send(self.kafka.clients.producer.ProducerRecord(topic, number, key, value))
        producer.flush()
        if transaction is not None:
            producer.commitTransaction() if transaction else producer.abortTransaction()
        producer.close()

    def read(self, topic: str, partitions: int) -> list[tuple[int, int, Message, dict[str, bytes]]]:
        """(partition, offset, message, headers) of all messages, each partition in its order."""
        reader = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
        options = {
            "bootstrap.servers": self.servers,
            "key.deserializer": reader,
            "value.deserializer": reader,
        }
        consumer = self.kafka.clients.consumer.KafkaConsumer(options)
        places = [self.kafka.common.TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        consumer.seekToBeginning(places)
        ends, found = self.ends(topic, partitions), []
        while any(consumer.position(place) < end for place, end in zip(places, ends, strict=True)):
            records = consumer.poll(self._jvm.java.time.Duration.ofMillis(500)).iterator()
            while records.hasNext():
                record = records.next()
                key, value = (
                    None if item is None else bytes(item) for item in (record.key(), record.value())
                )
                headers = {item.key(): bytes(item.value()) for item in record.headers().toArray()}
                found.append((record.partition(), record.offset(), (key, value), headers))
        consumer.close()
        return found

    def _short(self, value: int) -> Any:
        return self._jvm.java.lang.Short.valueOf(str(value))


def login(password: str = PASSWORD) -> dict[str, str]:
    """A client's options for KafkaBroker.sasl_servers."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN} username="reader" password="{password}";',
    }


def running_broker(folders: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker, for a fixture: it is stopped at the end."""
    lib = kafka_lib()
    if lib is None:
        pytest.skip("CDC_LAB names no folder that holds a Kafka broker's jars in kafka/lib")
    started = KafkaBroker(folders.mktemp("broker"), lib)
    yield started
    started.stop()
