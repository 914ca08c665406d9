import com.google.gson.Gson;
import io.a2a.client.MessageEvent;
import io.a2a.spec.A2AClientException;
import io.a2a.spec.AgentCard;
import io.a2a.spec.DataPart;
import io.a2a.spec.FilePart;
import io.a2a.spec.FileWithBytes;
import io.a2a.spec.ListTasksParams;
import io.a2a.spec.Task;
import io.a2a.spec.TaskIdParams;
import io.a2a.spec.TaskNotFoundError;
import io.a2a.spec.TaskState;
import io.a2a.spec.TextPart;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/** The cases of the official Java client. */
public final class Cases {
    private interface Case {
        void run(Peer peer) throws Exception;
    }

    private static boolean failed;
    private static String limit;

    /** Records what this client cannot do, which the running case has shown. */
    private static void cannot(String what) {
        limit = what;
    }

    public static void main(String[] arguments) throws Exception {
        record("JSONRPC", List.of("card", "immediate", "get"), "release notes", ReleaseNotes::run);
        AgentCard card = Peer.card("FIXTURE_URL");
        for (String binding : Peer.BINDINGS) {
            one(card, binding, false, false, "card", peer -> want(card.skills().get(0).id(), "fixture"));
            one(card, binding, false, false, "send", peer -> {
                Task task = peer.task(Peer.message("echo hello"));
                want(task.status().state(), TaskState.TASK_STATE_COMPLETED);
                want(Peer.text(task), "hello");
            });
            one(card, binding, false, true, "immediate", peer -> {
                Task task = peer.task(Peer.message("slow 1"));
                want(task.status().state().isFinal(), false);
                peer.client().cancelTask(new TaskIdParams(task.id()));
            });
            one(card, binding, false, false, "message", peer ->
                    want(Peer.text(Peer.message(peer.send(Peer.message("message hi"))).parts().get(0)), "hi"));
            one(card, binding, false, false, "answer", peer -> {
                Task asked = peer.task(Peer.message("ask"));
                want(asked.status().state(), TaskState.TASK_STATE_INPUT_REQUIRED);
                Task done = peer.task(Peer.message("EXW").taskId(asked.id()).contextId(asked.contextId()));
                want(List.of(done.id(), done.status().state(), Peer.text(done)),
                        List.of(asked.id(), TaskState.TASK_STATE_COMPLETED, "EXW"));
            });
            one(card, binding, true, false, "stream", peer -> {
                var events = peer.events(Peer.message("echo hello"), e -> Peer.stateOf(e) == TaskState.TASK_STATE_COMPLETED);
                want(events.size(), 4); // SUBMITTED, WORKING, an artifact, COMPLETED
            });
            one(card, binding, false, true, "subscribe", peer -> {
                Task task = peer.task(Peer.message("slow 2"));
                try (Peer streaming = new Peer(card, binding, true, false)) {
                    streaming.subscribe(task, e -> Peer.stateOf(e) == TaskState.TASK_STATE_COMPLETED);
                }
            });
            one(card, binding, false, false, "get", peer -> {
                Task task = peer.task(Peer.message("echo hello"));
                want(Peer.text(peer.get(task.id())), "hello");
            });
            one(card, binding, false, false, "list", peer -> {
                String context = UUID.randomUUID().toString();
                Task task = peer.task(Peer.message("echo hello").contextId(context));
                if (binding.equals("JSONRPC")) {
                    cannot("read a page of a list that is not full");
                }
                var page = peer.client().listTasks(ListTasksParams.builder().contextId(context).pageSize(1).build());
                want(page.tasks().stream().map(Task::id).toList(), List.of(task.id()));
            });
            one(card, binding, false, false, "errors", peer -> {
                try {
                    peer.get("nope");
                    throw new AssertionError("an unknown task was found");
                } catch (A2AClientException e) {
                    want(e.getCause().getClass(), TaskNotFoundError.class);
                } catch (UnsupportedOperationException e) {
                    want(binding, "HTTP+JSON");
                    cannot("read an error: it takes the object of google.rpc.Status for a text");
                }
            });
            one(card, binding, false, false, "parts", peer -> {
                Map<String, Object> data = Map.of("a", List.of("x", true), "b", Map.of());
                Task task = peer.task(Peer.message("").parts(new TextPart("echo parts"), new DataPart(data)));
                want(((DataPart) task.artifacts().get(0).parts().get(1)).data(), data);
            });
            one(card, binding, false, false, "parts", peer -> {
                var file = new FilePart(new FileWithBytes("application/pdf", "größe.pdf", "JVBERi0xLjc="), Map.of());
                Task task = peer.task(Peer.message("").parts(new TextPart("echo parts"), file));
                want(task.artifacts().get(0).parts().get(1), file);
            });
            one(card, binding, false, true, "cancel", peer -> {
                Task task = peer.task(Peer.message("slow 30"));
                want(peer.client().cancelTask(new TaskIdParams(task.id())).status().state(), TaskState.TASK_STATE_CANCELED);
            });
        }
        System.exit(failed ? 1 : 0); // the client's threads would go on
    }

    private static void one(AgentCard card, String binding, boolean streaming, boolean immediately, String operation, Case test)
            throws Exception {
        record(binding, List.of(operation), operation, () -> {
            try (Peer peer = new Peer(card, binding, streaming, immediately)) {
                test.run(peer);
            }
        });
    }

    private interface Body {
        void run() throws Exception;
    }

    /** Runs a case and writes its result, one line of the file that RESULTS names. */
    private static void record(String binding, List<String> operations, String name, Body body) throws Exception {
        String result = "pass";
        limit = "";
        try {
            body.run();
        } catch (Exception | AssertionError e) {
            result = "fail";
            failed = true;
            System.out.printf("%s, %s: ", name, binding);
            e.printStackTrace(System.out);
        }
        String path = System.getenv("RESULTS");
        if (path != null) {
            String line = new Gson().toJson(Map.of("sdk", "a2a-java", "binding", binding,
                    "operations", operations, "case", name, "result", result, "limit", limit));
            Files.writeString(Path.of(path), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    static void want(Object have, Object want) {
        if (!Objects.equals(have, want)) {
            throw new AssertionError("have " + have + ", want " + want);
        }
    }
}
