import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.a2a.grpc.utils.JSONRPCUtils;
import io.a2a.jsonrpc.common.json.IdJsonMappingException;
import io.a2a.jsonrpc.common.json.JsonProcessingException;
import io.a2a.jsonrpc.common.wrappers.A2AErrorResponse;
import io.a2a.jsonrpc.common.wrappers.A2ARequest;
import io.a2a.jsonrpc.common.wrappers.A2AResponse;
import io.a2a.jsonrpc.common.wrappers.CancelTaskRequest;
import io.a2a.jsonrpc.common.wrappers.CreateTaskPushNotificationConfigRequest;
import io.a2a.jsonrpc.common.wrappers.DeleteTaskPushNotificationConfigRequest;
import io.a2a.jsonrpc.common.wrappers.GetExtendedAgentCardRequest;
import io.a2a.jsonrpc.common.wrappers.GetTaskPushNotificationConfigRequest;
import io.a2a.jsonrpc.common.wrappers.GetTaskRequest;
import io.a2a.jsonrpc.common.wrappers.ListTaskPushNotificationConfigRequest;
import io.a2a.jsonrpc.common.wrappers.ListTasksRequest;
import io.a2a.jsonrpc.common.wrappers.SendMessageRequest;
import io.a2a.jsonrpc.common.wrappers.SendStreamingMessageRequest;
import io.a2a.jsonrpc.common.wrappers.SubscribeToTaskRequest;
import io.a2a.server.AgentCardValidator;
import io.a2a.server.ServerCallContext;
import io.a2a.server.auth.UnauthenticatedUser;
import io.a2a.server.events.InMemoryQueueManager;
import io.a2a.server.events.MainEventBus;
import io.a2a.server.events.MainEventBusProcessor;
import io.a2a.server.requesthandlers.DefaultRequestHandler;
import io.a2a.server.tasks.BasePushNotificationSender;
import io.a2a.server.tasks.InMemoryPushNotificationConfigStore;
import io.a2a.server.tasks.InMemoryTaskStore;
import io.a2a.server.util.sse.SseFormatter;
import io.a2a.spec.A2AError;
import io.a2a.spec.AgentCapabilities;
import io.a2a.spec.AgentCard;
import io.a2a.spec.AgentInterface;
import io.a2a.spec.AgentSkill;
import io.a2a.spec.InternalError;
import io.a2a.spec.JSONParseError;
import io.a2a.transport.jsonrpc.handler.JSONRPCHandler;
import io.a2a.transport.rest.handler.RestHandler;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;

/**
 * An agent written with the handlers of a2a-java, for clients to talk to: the words
 * that it understands are those of examples/fixture. The SDK's own HTTP servers are
 * not to be had, so that what lies between HTTP and the handlers is here.
 *
 * <p>It prints "ready" when it listens, and ends with its standard input. Its tasks
 * are in memory.
 */
public final class Server {
    private final JSONRPCHandler rpc;
    private final RestHandler rest;

    private Server(AgentCard card, ExecutorService executor) {
        InMemoryTaskStore tasks = new InMemoryTaskStore();
        MainEventBus bus = new MainEventBus();
        InMemoryQueueManager queues = new InMemoryQueueManager(tasks, bus);
        InMemoryPushNotificationConfigStore webhooks = new InMemoryPushNotificationConfigStore();
        MainEventBusProcessor events = new MainEventBusProcessor(bus, tasks, new BasePushNotificationSender(webhooks), queues);
        Thread thread = new Thread(events);
        thread.setDaemon(true);
        thread.start();
        DefaultRequestHandler handler =
                DefaultRequestHandler.create(new Agent(), tasks, queues, webhooks, events, executor, executor);
        rpc = new JSONRPCHandler(card, handler, executor);
        rest = new RestHandler(card, handler, executor);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Integer> ports = new HashMap<>();
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            ports.put(arguments[i], Integer.valueOf(arguments[i + 1]));
        }
        // It looks for its own HTTP servers otherwise.
        System.setProperty(AgentCardValidator.SKIP_PROPERTY, "true");
        int port = ports.get("--port");
        ExecutorService executor = Executors.newCachedThreadPool();
        Server server = new Server(card("http://127.0.0.1:" + port), executor);
        HttpServer http = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 128);
        http.setExecutor(executor);
        http.createContext("/.well-known/agent-card.json", exchange -> answer(exchange, server.rest.getAgentCard()));
        http.createContext("/rpc", server::call);
        http.createContext("/", server::request);
        http.start();
        server.warmUp();
        System.out.println("ready");
        while (System.in.read() >= 0) {}
        System.exit(0);
    }

    /** Loads classes, for which the first requests would have no time: the SDK waits a few seconds for an agent. */
    private void warmUp() {
        for (String text : List.of("echo", "ask", "fail", "burst 3", "message")) {
            String body = """
                    {"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"%s"}]},"configuration":{"blocking":true}}"""
                    .formatted(text);
            rest.sendMessage(new ServerCallContext(UnauthenticatedUser.INSTANCE, new HashMap<>(), Set.of(), "1.0"), "", body);
        }
    }

    private static AgentCard card(String base) {
        return AgentCard.builder()
                .name("Fixture in a2a-java")
                .description("Does what the first word of a message says.")
                .version("1.0.0")
                .supportedInterfaces(List.of(new AgentInterface("JSONRPC", base + "/rpc"), new AgentInterface("HTTP+JSON", base)))
                .capabilities(AgentCapabilities.builder().streaming(true).pushNotifications(true).build())
                .defaultInputModes(List.of("text/plain", "application/json"))
                .defaultOutputModes(List.of("text/plain", "application/json"))
                .skills(List.of(AgentSkill.builder()
                        .id("fixture")
                        .name("Fixture")
                        .description("Echoes, asks, waits, streams and fails on request.")
                        .tags(List.of("test"))
                        .build()))
                .build();
    }

    private static ServerCallContext context(HttpExchange exchange) {
        String version = exchange.getRequestHeaders().getFirst("A2A-Version");
        return new ServerCallContext(UnauthenticatedUser.INSTANCE, new HashMap<>(), Set.of(), version);
    }

    /** Serves JSON-RPC. */
    private void call(HttpExchange exchange) throws IOException {
        ServerCallContext context = context(exchange);
        A2AResponse<?> response;
        try {
            A2ARequest<?> request = JSONRPCUtils.parseRequestBody(body(exchange), "");
            if (request instanceof SendStreamingMessageRequest r) {
                stream(exchange, rpc.onMessageSendStream(r, context));
                return;
            } else if (request instanceof SubscribeToTaskRequest r) {
                stream(exchange, rpc.onSubscribeToTask(r, context));
                return;
            }
            response = unary(request, context);
        } catch (IdJsonMappingException e) {
            response = new A2AErrorResponse(e.getId(), new io.a2a.spec.InvalidParamsError(e.getMessage()));
        } catch (JsonProcessingException e) {
            response = new A2AErrorResponse(new JSONParseError(e.getMessage()));
        } catch (A2AError e) {
            response = new A2AErrorResponse(e);
        }
        answer(exchange, 200, "application/json", json(response));
    }

    private A2AResponse<?> unary(A2ARequest<?> request, ServerCallContext context) {
        if (request instanceof SendMessageRequest r) {
            return rpc.onMessageSend(r, context);
        } else if (request instanceof GetTaskRequest r) {
            return rpc.onGetTask(r, context);
        } else if (request instanceof ListTasksRequest r) {
            return rpc.onListTasks(r, context);
        } else if (request instanceof CancelTaskRequest r) {
            return rpc.onCancelTask(r, context);
        } else if (request instanceof CreateTaskPushNotificationConfigRequest r) {
            return rpc.setPushNotificationConfig(r, context);
        } else if (request instanceof GetTaskPushNotificationConfigRequest r) {
            return rpc.getPushNotificationConfig(r, context);
        } else if (request instanceof ListTaskPushNotificationConfigRequest r) {
            return rpc.listPushNotificationConfig(r, context);
        } else if (request instanceof DeleteTaskPushNotificationConfigRequest r) {
            return rpc.deletePushNotificationConfig(r, context);
        } else if (request instanceof GetExtendedAgentCardRequest r) {
            return rpc.onGetExtendedCardRequest(r, context);
        }
        return new A2AErrorResponse(request.getId(), new InternalError("no handler of " + request.getMethod()));
    }

    /** Returns the JSON of a response, which the SDK writes as an event only. */
    private static String json(A2AResponse<?> response) {
        String event = SseFormatter.formatResponseAsSSE(response, 0);
        return event.substring("data: ".length(), event.indexOf('\n'));
    }

    /** Serves HTTP+JSON. */
    private void request(HttpExchange exchange) throws IOException {
        ServerCallContext context = context(exchange);
        String path = exchange.getRequestURI().getPath();
        String[] segments = path.substring(1).split("/", -1);
        String verb = "";
        String task = segments.length > 1 ? segments[1] : "";
        if (segments.length == 2 && task.contains(":")) {
            verb = task.substring(task.lastIndexOf(':'));
            task = task.substring(0, task.lastIndexOf(':'));
        }
        String body = body(exchange);
        Map<String, String> query = query(exchange);
        String operation = exchange.getRequestMethod() + " " + switch (segments.length) {
            case 1 -> path;
            case 2 -> "/tasks/T" + verb;
            case 3 -> "/tasks/T/" + segments[2];
            default -> "/tasks/T/" + segments[2] + "/C";
        };
        answer(exchange, switch (operation) {
            case "POST /message:send" -> rest.sendMessage(context, "", body);
            case "POST /message:stream" -> rest.sendStreamingMessage(context, "", body);
            case "GET /tasks" -> rest.listTasks(context, "", query.get("contextId"), query.get("status"), number(query, "pageSize"),
                    query.get("pageToken"), number(query, "historyLength"), query.get("statusTimestampAfter"),
                    Boolean.valueOf(query.get("includeArtifacts")));
            case "GET /tasks/T" -> rest.getTask(context, "", task, number(query, "historyLength"));
            case "POST /tasks/T:cancel" -> rest.cancelTask(context, "", task);
            case "POST /tasks/T:subscribe", "GET /tasks/T:subscribe" -> rest.subscribeToTask(context, "", task);
            case "POST /tasks/T/pushNotificationConfigs" -> rest.createTaskPushNotificationConfiguration(context, "", body, task);
            case "GET /tasks/T/pushNotificationConfigs" -> rest.listTaskPushNotificationConfigurations(context, "", task, 0, "");
            case "GET /tasks/T/pushNotificationConfigs/C" ->
                    rest.getTaskPushNotificationConfiguration(context, "", task, segments[3]);
            case "DELETE /tasks/T/pushNotificationConfigs/C" ->
                    rest.deleteTaskPushNotificationConfiguration(context, "", task, segments[3]);
            default -> rest.createErrorResponse(new io.a2a.spec.MethodNotFoundError());
        });
    }

    private static Integer number(Map<String, String> query, String name) {
        return query.containsKey(name) ? Integer.valueOf(query.get(name)) : null;
    }

    private static Map<String, String> query(HttpExchange exchange) {
        Map<String, String> query = new HashMap<>();
        String text = exchange.getRequestURI().getRawQuery();
        for (String pair : text == null ? new String[0] : text.split("&")) {
            String[] sides = pair.split("=", 2);
            query.put(sides[0], URLDecoder.decode(sides.length > 1 ? sides[1] : "", StandardCharsets.UTF_8));
        }
        return query;
    }

    private static String body(HttpExchange exchange) throws IOException {
        return new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
    }

    private static void answer(HttpExchange exchange, RestHandler.HTTPRestResponse response) throws IOException {
        if (response instanceof RestHandler.HTTPRestStreamingResponse streaming) {
            stream(exchange, streaming.getPublisher());
        } else {
            answer(exchange, response.getStatusCode(), response.getContentType(), response.getBody());
        }
    }

    private static void answer(HttpExchange exchange, int status, String type, String text) throws IOException {
        byte[] bytes = text == null ? new byte[0] : text.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", type);
        exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        try (exchange) {
            exchange.getResponseBody().write(bytes);
        }
    }

    /** Serves events until the last one, or until the client has gone. */
    private static void stream(HttpExchange exchange, Flow.Publisher<?> events) throws IOException {
        exchange.getResponseHeaders().set("Content-Type", "text/event-stream");
        exchange.sendResponseHeaders(200, 0);
        OutputStream out = exchange.getResponseBody();
        CountDownLatch end = new CountDownLatch(1);
        events.subscribe(new Flow.Subscriber<Object>() {
            private Flow.Subscription subscription;
            private long id;

            @Override
            public void onSubscribe(Flow.Subscription s) {
                subscription = s;
                s.request(1);
            }

            @Override
            public void onNext(Object event) {
                String text = event instanceof A2AResponse<?> response
                        ? SseFormatter.formatResponseAsSSE(response, id++)
                        : SseFormatter.formatJsonAsSSE((String) event, id++);
                try {
                    out.write(text.getBytes(StandardCharsets.UTF_8));
                    out.flush();
                    subscription.request(1);
                } catch (IOException e) {
                    subscription.cancel();
                    end.countDown();
                }
            }

            @Override
            public void onError(Throwable e) {
                end.countDown();
            }

            @Override
            public void onComplete() {
                end.countDown();
            }
        });
        try (exchange) {
            end.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
