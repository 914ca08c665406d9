package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// answerID names the artifact that has the text of the model's last answer.
const answerID = "answer"

// ask asks the model what comes next, and reports whether the turn has to end.
func (w *work) ask() (parked bool, err error) {
	if err := w.mayAsk(); err != nil {
		return false, err
	}
	if err := w.fit(); err != nil {
		return false, err
	}
	// It is counted before, so that no crash makes the limit another one.
	s := w.state
	s.Spent.ModelCalls++
	s.Spent.Steps++
	s.Asking = true
	if err := w.save(); err != nil {
		return false, err
	}
	report := modelCall{Model: w.conf.Model, N: s.Spent.ModelCalls, Start: stamp(time.Now())}
	began, given := time.Now(), w.size()
	a, err := w.complete()
	report.MS = elapsed(began)
	if w.ctx.Err() != nil { // canceled, handed over, out of time
		return false, context.Cause(w.ctx)
	}
	if err != nil {
		if _, ok := errors.AsType[*limitError](err); ok {
			return false, err
		}
		return w.failed(err, &report)
	}
	if !a.usage.told {
		a.usage = usage{input: int64(w.tokens(given)), output: int64(w.tokens(len(a.text) + len(a.refusal) + sizeOf(a.calls)))}
		report.Estimated = true
	} else {
		s.Scale = min(max(float64(a.usage.input)/float64(given), 0.05), 2)
	}
	cost := w.count(a.usage)
	s.Asking, s.Failures = false, 0
	report.Outcome, report.Finish = "ok", a.finish
	if w.conf.ShowUsage {
		report.Input, report.Cached, report.Output = a.usage.input, a.usage.cached, a.usage.output
		if priced(w.conf) {
			report.Cost, report.Currency = money(cost), w.conf.Price.Currency
		}
	}
	parked, err = w.answered(a, &report)
	w.called(&report)
	return parked, err
}

func sizeOf(calls []function) int {
	n := 0
	for _, c := range calls {
		n += len(c.Name) + len(c.Arguments)
	}
	return n
}

// complete asks the model, and makes chunks of an artifact of what it says.
func (w *work) complete() (*answer, error) {
	tracer := trace.SpanFromContext(w.ctx).TracerProvider().Tracer("handoff")
	ctx, span := tracer.Start(w.ctx, "chat "+w.conf.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", w.conf.Model), attribute.String("a2a.task.id", w.turn.TaskID),
	))
	defer span.End()
	first := true
	out := chunks{emit: func(text string, last bool) error {
		s := &w.state.Spent
		s.Text += int64(len(text))
		if l := int64(w.conf.Limits.ArtifactBytes); l > 0 && s.Text > l {
			return w.reached(w.conf.Limits.ArtifactBytes.String()+" of answers", "artifact_bytes")
		}
		chunk := &agent.Artifact{ID: answerID, Parts: []a2a.Part{a2a.Text(text)}, Append: !first, Last: last}
		first = false
		return w.turn.Emit(agent.Step{Artifact: chunk})
	}}
	shown, err := w.shownImages()
	if err != nil {
		return nil, err
	}
	a, err := w.client.complete(ctx, w.params(shown), out.add)
	last := err == nil && len(a.calls) == 0
	if cerr := out.end(last); cerr != nil {
		err = cerr
	}
	if err != nil {
		w.partial = w.partial || !first
		span.SetStatus(codes.Error, "")
		return nil, err
	}
	if !first {
		w.partial = false
	}
	span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", a.usage.input), attribute.Int64("gen_ai.usage.output_tokens", a.usage.output),
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{a.finish}))
	return a, nil
}

// failed tells that the model has not answered, and waits before it is asked again,
// or ends the task.
func (w *work) failed(err error, report *modelCall) (parked bool, _ error) {
	s, now := w.state, time.Now()
	f := w.client.failureOf(err, now)
	if !f.counts { // it was refused, and has cost nothing
		s.Spent.ModelCalls--
		s.Spent.Steps--
	} else {
		w.count(usage{input: int64(w.tokens(w.size()))})
	}
	s.Failures++
	w.log.WarnContext(w.ctx, "A model has not answered", "model", w.conf.Model, "task", w.turn.TaskID, "failures", s.Failures, "reason", f.text, "status", f.status, "detail", f.detail)
	report.Outcome, report.Status = f.outcome, f.status
	w.called(report)
	limits := &w.conf.Limits
	wait := max(f.after, backoff(s.Failures))
	switch {
	case !f.again:
		return true, w.giveUp(f.text, report)
	case s.Failures > limits.Retries:
		return true, w.giveUp(fmt.Sprintf("%s It was asked %d times (%s.limits.retries).", f.text, s.Failures, w.key), report)
	case wait > limits.RetryWait.Std():
		return true, w.giveUp(fmt.Sprintf("%s It wants to be left alone for %s, which is longer than %s.limits.retry_wait (%s).", f.text, f.after, w.key, limits.RetryWait), report)
	}
	report.Retry = wait.Milliseconds()
	report.Total = s.Spent.total(w.conf)
	if err := w.save(); err != nil {
		return false, err
	}
	if err := w.say(fmt.Sprintf("%s It is asked again.", f.text), metaModel, report); err != nil {
		return false, err
	}
	if wait >= parkRetry {
		return true, w.turn.Wait(wait)
	}
	if !pause(w.ctx, wait) {
		return false, context.Cause(w.ctx)
	}
	return false, nil
}

// giveUp ends the task because the model cannot be asked.
func (w *work) giveUp(text string, report *modelCall) error {
	report.Total = w.state.Spent.total(w.conf)
	if err := w.save(); err != nil {
		return err
	}
	return w.turn.Emit(agent.Step{Fail: &agent.Content{Parts: []a2a.Part{a2a.Text(text)}, Metadata: metadata(metaModel, report)}})
}

// answered takes an answer: calls to make, or the last word. It reports whether the
// turn is over.
func (w *work) answered(a *answer, report *modelCall) (over bool, err error) {
	s := w.state
	report.Total = s.Spent.total(w.conf)
	if strings.TrimSpace(a.text) == "" {
		if err := w.blank(); err != nil {
			return false, err
		}
	}
	switch {
	case a.finish == "length":
		report.Outcome = "failed"
		return true, w.giveUp("The answer of the model was cut at the most tokens that it may have ("+w.key+".max_output, or the model's own limit).", report)
	case a.finish == "content_filter":
		report.Outcome = "failed"
		return true, w.giveUp("The answer of the model was withheld by the content filter of its provider.", report)
	case len(a.calls) > 0:
		return false, w.planned(a, report)
	case a.refusal != "":
		return true, w.turn.Emit(agent.Step{Reject: &agent.Content{Parts: []a2a.Part{a2a.Text(bounded(a.refusal, maxSaid))}, Metadata: metadata(metaModel, report)}})
	case strings.TrimSpace(a.text) == "":
		if s.Mistakes++; s.Mistakes > w.conf.Limits.Mistakes {
			return false, w.reached(fmt.Sprintf("%d mistakes of the model in a row; the last was an empty answer", w.conf.Limits.Mistakes), "mistakes")
		}
		report.Outcome = "empty"
		if err := w.save(); err != nil {
			return false, err
		}
		return false, w.say("The model has answered nothing. It is asked again.", metaModel, report)
	}
	s.Conversation = append(s.Conversation, message{Role: roleAssistant, Text: a.text})
	s.Mistakes = 0
	if err := w.save(); err != nil {
		return false, err
	}
	return false, w.say("The model has answered.", metaModel, report)
}

// maxSaid bounds what a status says of an answer, in bytes.
const maxSaid = 16 << 10

// planned takes an answer that asks for calls.
func (w *work) planned(a *answer, report *modelCall) error {
	calls := w.plan(a.calls)
	w.state.Conversation = append(w.state.Conversation, message{Role: roleAssistant, Text: a.text, Calls: calls})
	for _, c := range calls {
		report.Calls = append(report.Calls, c.Name)
	}
	if err := w.save(); err != nil {
		return err
	}
	text := strings.TrimSpace(a.text)
	if text == "" {
		text = "The model calls " + strings.Join(report.Calls, ", ") + "."
	}
	return w.say(bounded(text, maxSaid), metaModel, report)
}

// blank takes back the part of an answer that came to no end, when the answer that
// follows has no text to replace it.
func (w *work) blank() error {
	if !w.partial {
		return nil
	}
	w.partial = false
	if err := w.turn.Flush(); err != nil {
		return err
	}
	artifacts, err := w.turn.Artifacts()
	if err != nil {
		return err
	}
	for i := range artifacts {
		if artifacts[i].ArtifactID == answerID {
			return w.turn.Emit(agent.Step{Artifact: &agent.Artifact{ID: answerID, Parts: []a2a.Part{a2a.Text("")}, Last: true}})
		}
	}
	return nil
}
