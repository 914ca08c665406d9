//go:build race

package wire_test

// subscriberBytes is more than the budget: with the race detector what synchronizes
// is larger, and pools drop some of what they are given.
const subscriberBytes = 32 << 10
