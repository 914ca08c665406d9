import io.a2a.server.agentexecution.AgentExecutor;
import io.a2a.server.agentexecution.RequestContext;
import io.a2a.server.tasks.AgentEmitter;
import io.a2a.spec.Message;
import io.a2a.spec.Part;
import io.a2a.spec.TextPart;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Does what the first word of a message says. */
final class Agent implements AgentExecutor {
    private static final Set<String> WORDS = Set.of("echo", "message", "ask", "auth", "slow", "burst", "fail", "never");

    /** What ends a task that runs. */
    private final Map<String, CountDownLatch> stops = new ConcurrentHashMap<>();

    @Override
    public void execute(RequestContext turn, AgentEmitter task) {
        String text = text(turn.getMessage());
        int blank = text.indexOf(' ');
        String command = blank < 0 ? text : text.substring(0, blank);
        String argument = blank < 0 ? "" : text.substring(blank + 1);
        if (!WORDS.contains(command) || turn.getTask() != null) {
            command = "echo";
            argument = text;
        }
        List<Part<?>> parts = new ArrayList<>(turn.getMessage().parts());
        if (parts.isEmpty()) {
            parts.add(new TextPart(argument));
        } else {
            parts.set(0, new TextPart(argument));
        }
        if (command.equals("message")) {
            task.sendMessage(parts);
            return;
        }
        if (turn.getTask() == null) {
            task.submit();
        }
        task.startWork();
        CountDownLatch stop = new CountDownLatch(1);
        stops.put(task.getTaskId(), stop);
        try {
            work(task, command, argument, parts, stop);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            stops.remove(task.getTaskId());
        }
    }

    private void work(AgentEmitter task, String command, String argument, List<Part<?>> parts, CountDownLatch stop)
            throws InterruptedException {
        switch (command) {
            case "ask" -> task.requiresInput(say(task, "What is it?"));
            case "auth" -> task.requiresAuth(say(task, "Who are you?"));
            case "fail" -> task.fail(say(task, "failed on request"));
            case "slow" -> chunks(task, 10 * Integer.parseInt(argument), 100, stop);
            case "burst" -> chunks(task, Integer.parseInt(argument), 0, stop);
            case "never" -> stop.await();
            default -> {
                task.addArtifact(parts, null, null, null, false, true);
                task.complete();
            }
        }
    }

    private static void chunks(AgentEmitter task, int n, int milliseconds, CountDownLatch stop) throws InterruptedException {
        for (int i = 0; i < n; i++) {
            if (stop.await(milliseconds, TimeUnit.MILLISECONDS)) {
                return;
            }
            task.addArtifact(List.of(new TextPart("chunk " + (i + 1) + "\n")), "chunks", null, null, i > 0, i == n - 1);
        }
        task.complete();
    }

    @Override
    public void cancel(RequestContext turn, AgentEmitter task) {
        task.cancel();
        CountDownLatch stop = stops.get(task.getTaskId());
        if (stop != null) {
            stop.countDown();
        }
    }

    private static Message say(AgentEmitter task, String text) {
        return task.newAgentMessage(List.of(new TextPart(text)), null);
    }

    private static String text(Message message) {
        return !message.parts().isEmpty() && message.parts().get(0) instanceof TextPart first ? first.text() : "";
    }
}
