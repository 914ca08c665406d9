package timeline

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// segment is a part of the axis: between two moments at which something began or
// ended, or several of them.
type segment struct {
	from, to time.Time
	gap      bool
	x, w     float64
}

// scale turns moments into places.
type scale struct {
	segments []segment
	perUnit  float64 // nanoseconds of a unit where it is drawn to scale
}

func newScale(items []Item, now time.Time) *scale {
	moments := make([]time.Time, 0, 2*len(items))
	for i := range items {
		moments = append(moments, items[i].Start, items[i].end(now))
	}
	slices.SortFunc(moments, time.Time.Compare)
	moments = slices.CompactFunc(moments, time.Time.Equal)
	limit := longest(moments)
	s := &scale{}
	for i := 1; i < len(moments); i++ {
		from, to := moments[i-1], moments[i]
		gap := limit > 0 && to.Sub(from) >= limit
		if last := len(s.segments) - 1; last >= 0 && !gap && !s.segments[last].gap {
			s.segments[last].to = to
			continue
		}
		s.segments = append(s.segments, segment{from: from, to: to, gap: gap})
	}
	if len(s.segments) == 0 {
		s.segments = []segment{{from: moments[0], to: moments[0]}}
	}
	s.place()
	return s
}

// longest returns from which length on a time between two moments is a gap: one
// that is much longer than all shorter ones together, so that those could not be
// seen beside it. 0: there is none.
func longest(moments []time.Time) time.Duration {
	var lengths []time.Duration
	for i := 1; i < len(moments); i++ {
		lengths = append(lengths, moments[i].Sub(moments[i-1]))
	}
	slices.Sort(lengths)
	var limit, sum time.Duration
	for _, d := range lengths {
		if limit == 0 && d >= shortestGap && sum > 0 && d/4 > sum {
			limit = d
		}
		sum += d
	}
	if n := len(lengths) - maxGaps; limit > 0 && n >= 0 && lengths[n] > limit {
		limit = lengths[n]
	}
	return limit
}

// place gives each segment its place: gaps a fixed one, the others what their
// length takes of the rest.
func (s *scale) place() {
	var drawn time.Duration
	gaps := 0
	for _, g := range s.segments {
		if g.gap {
			gaps++
		} else {
			drawn += g.to.Sub(g.from)
		}
	}
	const room = Width - Left - Right
	gap := float64(gapWidth)
	free := room - gap*float64(gaps)
	s.perUnit = max(float64(drawn), 1) / free
	if gaps > 0 && s.perUnit < float64(slowest) {
		s.perUnit = float64(slowest)
		gap = (room - float64(drawn)/s.perUnit) / float64(gaps)
	}
	x := float64(Left)
	for i := range s.segments {
		g := &s.segments[i]
		g.x, g.w = x, gap
		if !g.gap {
			g.w = float64(g.to.Sub(g.from)) / s.perUnit
		}
		x += g.w
	}
}

func (s *scale) from() time.Time { return s.segments[0].from }
func (s *scale) to() time.Time   { return s.segments[len(s.segments)-1].to }

// x is the place of a moment.
func (s *scale) x(t time.Time) float64 {
	for i := range s.segments {
		g := &s.segments[i]
		if t.After(g.to) {
			continue
		}
		length := g.to.Sub(g.from)
		if length <= 0 || !t.After(g.from) {
			return g.x
		}
		return g.x + g.w*float64(t.Sub(g.from))/float64(length)
	}
	last := &s.segments[len(s.segments)-1]
	return last.x + last.w
}

func (s *scale) gaps() []Gap {
	var list []Gap
	for _, g := range s.segments {
		if g.gap {
			list = append(list, Gap{X: g.x, W: g.w, From: g.from, To: g.to, Label: Length(g.to.Sub(g.from))})
		}
	}
	return list
}

// steps are the distances that ticks may have.
var steps = func() []time.Duration {
	var list []time.Duration
	for unit := time.Microsecond; unit < time.Second; unit *= 10 {
		list = append(list, unit, 2*unit, 5*unit)
	}
	for _, n := range []int{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600} {
		list = append(list, time.Duration(n)*time.Second)
	}
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000} {
		list = append(list, time.Duration(n)*24*time.Hour)
	}
	return list
}()

// ticks stand at round times since the beginning, in what is drawn to scale, and
// at the end of each gap.
func (s *scale) ticks() []Tick {
	step := steps[len(steps)-1]
	for _, d := range steps {
		if float64(d)/s.perUnit >= tickSpace {
			step = d
			break
		}
	}
	start, last := s.from(), float64(Left)
	ticks := []Tick{{X: Left, Label: "0"}}
	for i, g := range s.segments {
		if g.gap {
			continue
		}
		began := g.from.Sub(start)
		if i > 0 && g.x-last >= tickSpace/2 {
			ticks = append(ticks, Tick{X: g.x, After: began, Label: "+" + offset(began, step)})
			last = g.x
		}
		for d := (began/step + 1) * step; d <= g.to.Sub(start); d += step {
			x := g.x + float64(d-began)/s.perUnit
			end := i == len(s.segments)-1 || g.x+g.w-x >= tickSpace/2
			if x-last >= tickSpace*0.7 && x <= Width-Right && end {
				ticks = append(ticks, Tick{X: x, After: d, Label: "+" + offset(d, step)})
				last = x
			}
		}
	}
	return ticks
}

// offset writes a time since the beginning as exactly as the distance of the
// ticks asks for.
func offset(d, step time.Duration) string {
	if d < time.Second && step < time.Second {
		return strconv.FormatFloat(float64(d)/1e6, 'f', -1, 64) + " ms"
	}
	if step < time.Second {
		d = d.Round(time.Millisecond)
		return clock(d, d%time.Second != 0)
	}
	if step < time.Minute && d >= time.Minute {
		return clock(d.Round(time.Second), false)
	}
	return Length(d)
}

// clock writes a time as hours, minutes and seconds.
func clock(d time.Duration, fraction bool) string {
	seconds := fmt.Sprintf("%02d", int(d/time.Second)%60)
	if fraction {
		seconds = fmt.Sprintf("%06.3f", float64(d%time.Minute)/1e9)
	}
	switch h, m := int(d/time.Hour), int(d/time.Minute)%60; {
	case h > 0:
		return fmt.Sprintf("%d:%02d:%s", h, m, seconds)
	case m > 0:
		return fmt.Sprintf("%d:%s", m, seconds)
	case fraction:
		return strconv.FormatFloat(float64(d)/1e9, 'f', -1, 64) + " s"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// count writes how many items a mark stands for.
func count(n int) string { return "×" + strconv.Itoa(n) }

// Length writes a length of time for people, with its two largest units: 3 h
// 12 min, 1.5 s, 40 ms.
func Length(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Millisecond:
		return strconv.FormatFloat(float64(d)/1e6, 'g', 2, 64) + " ms"
	case d < time.Second:
		return strconv.Itoa(int(d/time.Millisecond)) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d/(100*time.Millisecond))/10, 'f', -1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < 24*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, 24*time.Hour, "d", time.Hour, "h")
}

func two(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := strconv.Itoa(int(d/large)) + " " + largeName
	if rest := int(d % large / small); rest > 0 {
		text += " " + strconv.Itoa(rest) + " " + smallName
	}
	return text
}
