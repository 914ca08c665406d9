package agent

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
)

// Once calls fn and keeps its result durably under that key of the task, so
// that a turn resumed after a crash gets the result back instead of calling
// again. The result has to survive JSON. fn may run twice when the process dies
// between its return and the commit of the result: give the receiver the key as
// its idempotency key where that matters. An error of fn is not kept.
func Once[T any](ctx context.Context, t *Turn, key string, fn func(context.Context) (T, error)) (T, error) {
	var result T
	kept, err := t.rt.Result(ctx, key)
	if err != nil {
		return result, fmt.Errorf("read result %q: %w", key, err)
	}
	if kept != nil {
		if err := json.Unmarshal(kept, &result); err != nil {
			return result, fmt.Errorf("decode result %q: %w", key, err)
		}
		return result, nil
	}
	result, err = fn(ctx)
	if err != nil {
		return result, err
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		return result, fmt.Errorf("encode result %q: %w", key, err)
	}
	if err := t.rt.SaveResult(ctx, key, encoded); err != nil {
		return result, fmt.Errorf("save result %q: %w", key, err)
	}
	return result, nil
}
