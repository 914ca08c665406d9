package timeline_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"handoff.example/handoff/internal/console/timeline"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(time.Duration(s * 1e9)) }

func TestBarsAreAsLongAsTheirTime(t *testing.T) {
	t.Parallel()
	p := timeline.Draw([]timeline.Item{
		{Lane: "Turns", Label: "Turn 1", Start: at(0), End: at(10)},
		{Lane: "Turns", Label: "Turn 2", Start: at(30), End: at(40)},
		{Lane: "Waits", Label: "for mara", Start: at(10), End: at(30)},
	}, at(1000))
	if len(p.Lanes) != 2 || p.Lanes[0].Name != "Turns" || len(p.Gaps) != 0 || !p.To.Equal(at(40)) {
		t.Fatalf("%+v", p)
	}
	first, second, wait := p.Lanes[0].Shapes[0], p.Lanes[0].Shapes[1], p.Lanes[1].Shapes[0]
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.01 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("the wait is twice a turn", wait.W, 2*first.W)
	near("it begins where the turn ends", wait.X, first.X+first.W)
	near("the last turn ends at the right", second.X+second.W, timeline.Width-timeline.Right)
	near("the first begins at the left", first.X, timeline.Left)
	if first.Y != second.Y {
		t.Error("turns that follow each other stand in two rows")
	}
	if !wait.Inside || wait.Label != "for mara" {
		t.Errorf("the label of the wait is not in it: %+v", wait)
	}
}

// Three hours between two turns of a second are left out, and said.
func TestALongWaitIsAGapWithItsLength(t *testing.T) {
	t.Parallel()
	const hours = 3*3600 + 12*60
	items := []timeline.Item{
		{Lane: "Turns", Label: "Turn 1", Start: at(0), End: at(1)},
		{Lane: "Turns", Label: "Turn 2", Start: at(1 + hours), End: at(2 + hours)},
		{Lane: "Waits", Label: "for mara", Start: at(1), End: at(1 + hours)},
	}
	p := timeline.Draw(items, at(hours))
	if len(p.Gaps) != 1 || p.Gaps[0].Label != "3 h 12 min" || !p.Gaps[0].From.Equal(at(1)) {
		t.Fatalf("gaps: %+v", p.Gaps)
	}
	one, two, wait := p.Lanes[0].Shapes[0], p.Lanes[0].Shapes[1], p.Lanes[1].Shapes[0]
	if math.Abs(one.W-two.W) > 0.01 || one.W < 100 {
		t.Errorf("turns of the same length are drawn %v and %v long", one.W, two.W)
	}
	if wait.X > p.Gaps[0].X+0.01 || wait.X+wait.W < p.Gaps[0].X+p.Gaps[0].W-0.01 {
		t.Errorf("the wait %+v does not reach over the gap %+v", wait, p.Gaps[0])
	}
	found := false
	for _, tick := range p.Ticks {
		found = found || tick.After == (1+hours)*time.Second && tick.Label == "+3:12:01"
	}
	if !found {
		t.Errorf("no tick says when it went on: %+v", p.Ticks)
	}
}

// A wait that is all that happened is no gap.
func TestAWaitAloneIsDrawn(t *testing.T) {
	t.Parallel()
	p := timeline.Draw([]timeline.Item{{Lane: "Waits", Start: at(0), Open: true}}, at(7200))
	if len(p.Gaps) != 0 || !p.Lanes[0].Shapes[0].Open || p.Lanes[0].Shapes[0].W < timeline.Width-timeline.Left-timeline.Right {
		t.Errorf("%+v", p)
	}
}

func TestMicrosecondsDoNotFillAPictureOfHours(t *testing.T) {
	t.Parallel()
	p := timeline.Draw([]timeline.Item{
		{Lane: "Turns", Label: "Turn 1", Start: at(0), End: at(0.0001)},
		{Lane: "Waits", Start: at(0.0001), End: at(9000)},
		{Lane: "Turns", Label: "Turn 2", Start: at(9000), End: at(9000.0001)},
	}, at(9000))
	if len(p.Gaps) != 1 || p.Gaps[0].W < 700 {
		t.Errorf("%+v", p.Gaps)
	}
}

func TestMarksThatLieUponEachOtherAreOne(t *testing.T) {
	t.Parallel()
	items := []timeline.Item{{Lane: "Steps", Label: "late", Start: at(50)}}
	for i := range 500 {
		items = append(items, timeline.Item{Lane: "Steps", Label: "chunk", Start: at(float64(i) / 1000)})
	}
	shapes := timeline.Draw(items, at(50)).Lanes[0].Shapes
	if len(shapes) != 2 || len(shapes[0].Items) != 500 || shapes[0].Label != "×500" || shapes[1].Items[0] != 0 {
		t.Errorf("%d shapes: %+v", len(shapes), shapes[0])
	}
}

func TestMicrosecondsStayInThePicture(t *testing.T) {
	t.Parallel()
	shapes := timeline.Draw([]timeline.Item{{Lane: "Turns", Start: at(10e-6)}, {Lane: "Turns", Start: at(5e-6)}}, at(1)).Lanes[0].Shapes
	if got := shapes[len(shapes)-1].X; got != timeline.Width-timeline.Right {
		t.Errorf("the last mark is at %v", got)
	}
}

func TestLength(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-1: "0 s", 0: "0 ms", 120 * time.Microsecond: "0.12 ms", 40 * time.Millisecond: "40 ms", 1500 * time.Millisecond: "1.5 s", 42 * time.Second: "42 s",
		time.Minute: "1 min", 154 * time.Second: "2 min 34 s", 3*time.Hour + 12*time.Minute: "3 h 12 min", 24 * time.Hour: "1 d", 50 * time.Hour: "2 d 2 h",
	} {
		if got := timeline.Length(d); got != want {
			t.Errorf("Length(%v) = %q, want %q", d, got, want)
		}
	}
}

// Whatever happened, all of it lies in the picture, in order, and ticks can be
// read.
func TestEveryPictureHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := at(1e6)
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) timeline.Item {
			unit := rapid.SampledFrom([]float64{0.00001, 0.01, 1, 60, 3600, 86400}).Draw(t, "unit")
			i := timeline.Item{
				Lane: rapid.SampledFrom([]string{"Turns", "Waits", "Steps"}).Draw(t, "lane"), Label: rapid.StringN(0, 80, -1).Draw(t, "label"),
				Start: at(rapid.Float64Range(0, 50).Draw(t, "start") * unit), Open: rapid.Bool().Draw(t, "open"),
			}
			if rapid.Bool().Draw(t, "span") {
				i.End = i.Start.Add(time.Duration(rapid.Float64Range(-1, 50).Draw(t, "length") * unit * 1e9))
			}
			return i
		}), 1, 60).Draw(t, "items")
		p := timeline.Draw(items, now)
		seen := map[int]bool{}
		bottom := timeline.Axis
		for _, lane := range p.Lanes {
			if lane.Y != bottom {
				t.Fatalf("a lane begins at %d, want %d", lane.Y, bottom)
			}
			bottom = lane.Y + lane.Height
			for _, shape := range lane.Shapes {
				if shape.X < timeline.Left-1 || shape.X+shape.W > timeline.Width || shape.Y < lane.Y || shape.Y+timeline.BarHeight > bottom || math.IsNaN(shape.X) {
					t.Fatalf("%+v lies outside of %+v", shape, lane)
				}
				for _, i := range shape.Items {
					if seen[i] {
						t.Fatalf("%d is drawn twice", i)
					}
					seen[i] = true
				}
			}
		}
		if len(seen) != len(items) || p.Height != bottom {
			t.Fatalf("%d of %d items are drawn, to %d of %d", len(seen), len(items), bottom, p.Height)
		}
		last := -1.0
		for _, tick := range p.Ticks {
			if tick.X < last+30 && last >= 0 || tick.X > timeline.Width {
				t.Fatalf("ticks stand too near: %+v", p.Ticks)
			}
			last = tick.X
		}
		if len(p.Ticks) > 40 || len(p.Gaps) > 6 {
			t.Fatal(fmt.Sprint(len(p.Ticks), " ticks, ", len(p.Gaps), " gaps"))
		}
	})
}
