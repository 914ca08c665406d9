// Package timeline lays out what happened to a task over time, to scale: spans
// and marks in lanes, an axis with readable ticks, and breaks where nothing
// happened for long.
package timeline

import (
	"cmp"
	"slices"
	"time"
)

// Item is something that happened: a span with an end, a mark whose end is its
// start, or something that goes on.
type Item struct {
	Lane  string // items of a lane are drawn in rows of their own
	Label string
	Start time.Time
	End   time.Time // of a mark: zero
	Open  bool      // goes on until now
}

// The measures of a picture, in units of its view box.
const (
	Width     = 1000
	Left      = 130 // of the scale; the names of the lanes stand before it
	Right     = 24  // after it
	Axis      = 44  // height of the axis at the top
	RowHeight = 26
	BarHeight = 18
	laneSpace = 8

	gapWidth   = 92 // of a break
	maxGaps    = 6
	maxRows    = 8 // of a lane; what is left overlaps in the last
	tickSpace  = 84
	charWidth  = 6.3
	markWidth  = 10
	minBar     = 3
	shortLabel = 60 // characters
)

// shortestGap is the least time in which nothing happened that may be left out.
const shortestGap = time.Minute

// slowest is the least time that a unit of the picture stands for: two moments a
// few microseconds apart do not fill it.
const slowest = 2 * time.Millisecond

// Picture is a layout.
type Picture struct {
	Width, Height int
	From, To      time.Time
	Lanes         []Lane
	Ticks         []Tick
	Gaps          []Gap
}

// Lane is a group of rows.
type Lane struct {
	Name   string
	Y      int
	Height int
	Shapes []Shape
}

// Shape is a bar or a mark. A mark may stand for several items that would lie
// upon each other.
type Shape struct {
	Items  []int // indexes of what it stands for
	X, W   float64
	Y      int
	Mark   bool
	Open   bool
	Label  string // "" where there is no room
	LabelX float64
	Inside bool // the label stands in the bar
}

// Right is where the shape ends.
func (s *Shape) Right() float64 { return s.X + s.W }

// Tick is a place on the axis.
type Tick struct {
	X     float64
	After time.Duration // since the beginning
	Label string
}

// Gap is a time in which nothing happened that is drawn shorter than it was.
type Gap struct {
	X, W     float64
	From, To time.Time
	Label    string // how long it was
}

// Middle is the middle of the gap.
func (g *Gap) Middle() float64 { return g.X + g.W/2 }

// Draw lays out items. Now is the end of those that go on.
func Draw(items []Item, now time.Time) *Picture {
	p := &Picture{Width: Width, Height: Axis}
	if len(items) == 0 {
		return p
	}
	s := newScale(items, now)
	p.From, p.To, p.Gaps = s.from(), s.to(), s.gaps()
	p.Ticks = s.ticks()
	y := Axis
	for _, lane := range lanes(items) {
		l := Lane{Name: items[lane[0]].Lane, Y: y}
		rows := l.draw(items, lane, s, now)
		l.Height = rows*RowHeight + laneSpace
		y += l.Height
		p.Lanes = append(p.Lanes, l)
	}
	p.Height = y
	return p
}

// lanes returns the indexes of the items of each lane, lanes in the order of
// their first item in the list and items by their start.
func lanes(items []Item) [][]int {
	byName := map[string]int{}
	var list [][]int
	for i := range items {
		n, ok := byName[items[i].Lane]
		if !ok {
			n = len(list)
			byName[items[i].Lane] = n
			list = append(list, nil)
		}
		list[n] = append(list[n], i)
	}
	for _, lane := range list {
		slices.SortStableFunc(lane, func(a, b int) int { return items[a].Start.Compare(items[b].Start) })
	}
	return list
}

// end is when an item ends.
func (i *Item) end(now time.Time) time.Time {
	switch {
	case i.Open && now.After(i.Start):
		return now
	case i.End.After(i.Start):
		return i.End
	}
	return i.Start
}

// mark reports whether an item is drawn as one.
func (i *Item) mark() bool { return !i.Open && i.End.IsZero() }

// draw places the items of a lane, and returns how many rows they take.
func (l *Lane) draw(items []Item, lane []int, s *scale, now time.Time) int {
	var marks []int
	for _, i := range lane {
		if items[i].mark() {
			marks = append(marks, i)
			continue
		}
		x := s.x(items[i].Start)
		w := max(s.x(items[i].end(now))-x, minBar)
		l.Shapes = append(l.Shapes, Shape{Items: []int{i}, X: x, W: min(w, Width-Right-x+minBar), Open: items[i].Open, Label: short(items[i].Label)})
	}
	for n := 0; n < len(marks); {
		shape := Shape{X: s.x(items[marks[n]].Start), Mark: true, Label: short(items[marks[n]].Label)}
		for ; n < len(marks) && s.x(items[marks[n]].Start)-shape.X < markWidth; n++ {
			shape.Items = append(shape.Items, marks[n])
		}
		if len(shape.Items) > 1 {
			shape.Label = count(len(shape.Items))
		}
		l.Shapes = append(l.Shapes, shape)
	}
	slices.SortStableFunc(l.Shapes, func(a, b Shape) int { return cmp.Compare(a.X, b.X) })
	return l.stack()
}

// stack gives each shape the first row that is free where it stands, its label
// included where there is room for it.
func (l *Lane) stack() int {
	var free []float64 // where each row is free again
	for n := range l.Shapes {
		shape := &l.Shapes[n]
		left, right := shape.X, shape.X+shape.W
		if shape.Mark {
			left, right = shape.X-markWidth/2, shape.X+markWidth/2
		}
		label := float64(len([]rune(shape.Label))) * charWidth
		shape.Inside = !shape.Mark && label+8 <= shape.W
		row := slices.IndexFunc(free, func(x float64) bool { return x <= left })
		if row < 0 && len(free) < maxRows {
			row = len(free)
			free = append(free, 0)
		}
		if row < 0 {
			row = len(free) - 1
			shape.Label = ""
		}
		switch {
		case shape.Label == "":
		case shape.Inside:
			shape.LabelX = shape.X + 5
		case right+5+label <= Width:
			shape.LabelX = right + 5
			right += 9 + label
		case left-5-label >= free[row] && left-5-label >= Left:
			shape.LabelX = left - 5 - label
		default:
			shape.Label = ""
		}
		shape.Y = l.Y + row*RowHeight + (RowHeight-BarHeight)/2
		free[row] = max(free[row], right)
	}
	return max(len(free), 1)
}

// short shortens a label.
func short(s string) string {
	runes := []rune(s)
	if len(runes) <= shortLabel {
		return s
	}
	return string(runes[:shortLabel-1]) + "…"
}
