package main

import "slices"

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

func percentile(values []float64, p float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[min(len(s)-1, int(p*float64(len(s))))]
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
