import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.a2a.client.http.A2AHttpClient;
import io.a2a.client.http.A2AHttpClientFactory;
import io.a2a.client.http.A2AHttpResponse;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * What this release of the SDK, which is of a draft of A2A 1.0, does not say:
 * the header A2A-Version, and configuration.returnImmediately, which was called
 * blocking in the draft.
 */
record CurrentHttp(A2AHttpClient client, boolean immediately) implements A2AHttpClient {
    CurrentHttp(boolean immediately) {
        this(A2AHttpClientFactory.create(), immediately);
    }

    @Override
    public GetBuilder createGet() {
        return client.createGet().addHeader("A2A-Version", "1.0");
    }

    @Override
    public DeleteBuilder createDelete() {
        return client.createDelete().addHeader("A2A-Version", "1.0");
    }

    @Override
    public PostBuilder createPost() {
        return new Post(client.createPost().addHeader("A2A-Version", "1.0"));
    }

    private String current(String body) {
        if (!immediately) {
            return body;
        }
        JsonObject request = JsonParser.parseString(body).getAsJsonObject();
        JsonObject parameters = request.has("params") ? request.getAsJsonObject("params") : request;
        JsonElement configuration = parameters.get("configuration");
        if (configuration == null && parameters.has("message")) {
            parameters.add("configuration", configuration = new JsonObject());
        }
        if (configuration != null) {
            configuration.getAsJsonObject().addProperty("returnImmediately", true);
        }
        return request.toString();
    }

    private final class Post implements PostBuilder {
        private final PostBuilder post;

        Post(PostBuilder post) {
            this.post = post;
        }

        @Override
        public PostBuilder url(String url) {
            post.url(url);
            return this;
        }

        @Override
        public PostBuilder addHeaders(Map<String, String> headers) {
            post.addHeaders(headers);
            return this;
        }

        @Override
        public PostBuilder addHeader(String name, String value) {
            post.addHeader(name, value);
            return this;
        }

        @Override
        public PostBuilder body(String body) {
            post.body(current(body));
            return this;
        }

        @Override
        public A2AHttpResponse post() throws IOException, InterruptedException {
            return post.post();
        }

        @Override
        public CompletableFuture<Void> postAsyncSSE(Consumer<String> events, Consumer<Throwable> errors, Runnable end)
                throws IOException, InterruptedException {
            return post.postAsyncSSE(events, errors, end);
        }
    }
}
