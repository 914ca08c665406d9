import io.a2a.client.Client;
import io.a2a.client.ClientEvent;
import io.a2a.client.MessageEvent;
import io.a2a.client.TaskEvent;
import io.a2a.client.TaskUpdateEvent;
import io.a2a.client.config.ClientConfig;
import io.a2a.client.http.A2ACardResolver;
import io.a2a.client.transport.jsonrpc.JSONRPCTransport;
import io.a2a.client.transport.jsonrpc.JSONRPCTransportConfig;
import io.a2a.client.transport.rest.RestTransport;
import io.a2a.client.transport.rest.RestTransportConfig;
import io.a2a.spec.AgentCard;
import io.a2a.spec.AgentInterface;
import io.a2a.spec.Message;
import io.a2a.spec.Part;
import io.a2a.spec.Task;
import io.a2a.spec.TaskIdParams;
import io.a2a.spec.TaskQueryParams;
import io.a2a.spec.TaskState;
import io.a2a.spec.TextPart;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The official Java client on one binding. */
final class Peer implements AutoCloseable {
    static final List<String> BINDINGS = List.of("JSONRPC", "HTTP+JSON");

    private final Client client;

    /** Connects to the agent of a card over a binding. */
    Peer(AgentCard card, String binding, boolean streaming, boolean immediately) throws Exception {
        List<AgentInterface> one = card.supportedInterfaces().stream()
                .filter(i -> i.protocolBinding().equals(binding)).toList();
        CurrentHttp http = new CurrentHttp(immediately);
        var builder = Client.builder(AgentCard.builder(card).supportedInterfaces(one).build())
                .clientConfig(ClientConfig.builder().setStreaming(streaming).build());
        client = switch (binding) {
            case "JSONRPC" -> builder.withTransport(JSONRPCTransport.class, new JSONRPCTransportConfig(http)).build();
            case "HTTP+JSON" -> builder.withTransport(RestTransport.class, new RestTransportConfig(http)).build();
            default -> throw new IllegalArgumentException(binding);
        };
    }

    static AgentCard card(String variable) {
        String address = System.getenv(variable);
        if (address == null) {
            throw new IllegalStateException(variable + " is not set; run make interop");
        }
        return new A2ACardResolver(address).getAgentCard();
    }

    static Message.Builder message(String text) {
        return Message.builder().role(Message.Role.ROLE_USER).messageId("msg-" + UUID.randomUUID())
                .parts(new TextPart(text));
    }

    Client client() {
        return client;
    }

    /** Sends a message and returns the first event. */
    ClientEvent send(Message.Builder message) throws Exception {
        return events(message, event -> true).get(0);
    }

    Task task(Message.Builder message) throws Exception {
        return ((TaskEvent) send(message)).getTask();
    }

    /** Sends a message and returns the events up to one that is the last. */
    List<ClientEvent> events(Message.Builder message, java.util.function.Predicate<ClientEvent> last) throws Exception {
        BlockingQueue<Object> queue = new LinkedBlockingQueue<>();
        client.sendMessage(message.build(), List.of((event, card) -> queue.add(event)), queue::add);
        return drain(queue, last);
    }

    List<ClientEvent> subscribe(Task task, java.util.function.Predicate<ClientEvent> last) throws Exception {
        BlockingQueue<Object> queue = new LinkedBlockingQueue<>();
        client.subscribeToTask(new TaskIdParams(task.id()), List.of((event, card) -> queue.add(event)), queue::add);
        return drain(queue, last);
    }

    private static List<ClientEvent> drain(BlockingQueue<Object> queue, java.util.function.Predicate<ClientEvent> last)
            throws Exception {
        List<ClientEvent> all = new ArrayList<>();
        while (true) {
            Object next = queue.poll(20, TimeUnit.SECONDS);
            if (!(next instanceof ClientEvent event)) {
                throw new AssertionError("after " + all.size() + " events: " + next);
            }
            all.add(event);
            if (last.test(event)) {
                return all;
            }
        }
    }

    Task get(String id) throws Exception {
        return client.getTask(new TaskQueryParams(id));
    }

    /** The state that an event is about, or null. */
    static TaskState stateOf(ClientEvent event) {
        if (event instanceof TaskEvent e) {
            return e.getTask().status().state();
        }
        return event instanceof TaskUpdateEvent e ? e.getTask().status().state() : null;
    }

    static String text(Task task) {
        StringBuilder text = new StringBuilder();
        task.artifacts().forEach(artifact -> artifact.parts().forEach(part -> text.append(text(part))));
        return text.toString();
    }

    static String text(Part<?> part) {
        return part instanceof TextPart t ? t.text() : "";
    }

    static Message message(ClientEvent event) {
        return ((MessageEvent) event).getMessage();
    }

    @Override
    public void close() {
        client.close();
    }
}
