import io.a2a.client.TaskEvent;
import io.a2a.spec.AgentCard;
import io.a2a.spec.AgentInterface;
import io.a2a.spec.Task;
import io.a2a.spec.TaskState;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Discovery, a task that is polled, and a second task in the same context,
 * against examples/release-notes. Prints what it sees, and what the server has
 * logged of it.
 */
final class ReleaseNotes {
    private static final Pattern CALL = Pattern.compile("msg=request.* operation=(\\S+)");
    private static final String CONTEXT = "ctx-release-1";

    private final Path log = Path.of(System.getenv("RELEASE_NOTES_LOG"));

    static void run() throws Exception {
        new ReleaseNotes().conversation();
    }

    private void conversation() throws Exception {
        AgentCard card = Peer.card("RELEASE_NOTES_URL");
        System.out.printf("discovery: resolver accepted %s v%s%n", card.name(), card.version());
        AgentInterface first = card.supportedInterfaces().get(0);
        System.out.printf("interface: %s %s protocol=%s%n", first.protocolBinding(), first.url(), first.protocolVersion());
        System.out.printf("tenant omitted: %s%n", first.tenant() == null || first.tenant().isEmpty());
        try (Peer peer = new Peer(card, first.protocolBinding(), false, true)) {
            Task one = send(peer, 1, "Create release notes for version 1.4.0");
            Task polled = poll(peer, 1, one);
            Cases.want(polled.status().state(), TaskState.TASK_STATE_WORKING);
            Thread.sleep(3_000); // it takes about a second
            polled = poll(peer, 2, one);
            Cases.want(polled.status().state(), TaskState.TASK_STATE_COMPLETED);
            Task two = send(peer, 4, "Add a migration note for version 1.4.1");
            boolean isNew = !two.id().equals(one.id());
            System.out.printf("send-2: task=%s context=%s newTask=%s%n", two.id(), two.contextId(), isNew);
            Cases.want(isNew && two.contextId().equals(CONTEXT), true);
        }
    }

    private Task send(Peer peer, int call, String text) throws Exception {
        Task task = peer.task(Peer.message(text).contextId(CONTEXT));
        logged(call, "SendMessage");
        System.out.printf("client-event: Task id=%s state=%s%n", task.id(), task.status().state());
        Cases.want(task.status().state(), TaskState.TASK_STATE_WORKING);
        return task;
    }

    private Task poll(Peer peer, int n, Task task) throws Exception {
        Task now = peer.get(task.id());
        logged(n + 1, "GetTask");
        TaskState state = now.status().state();
        System.out.printf("poll-%d: task=%s state=%s final=%s%n", n, now.id(), state, state.isFinal());
        return now;
    }

    /** Waits until the server has logged its call of that number, and prints it. */
    private void logged(int number, String operation) throws Exception {
        for (int tries = 0; tries < 100; tries++, Thread.sleep(50)) {
            List<String> calls = Files.readAllLines(log).stream().map(CALL::matcher)
                    .filter(m -> m.find()).map(m -> m.group(1)).toList();
            if (calls.size() >= number) {
                Cases.want(calls.get(number - 1), operation);
                System.out.printf("server-call-%d: %s%n", number, operation);
                return;
            }
        }
        throw new AssertionError("the server has logged no call " + number);
    }
}
