//go:build !race

package wire_test

// subscriberBytes is the budget of a subscriber that waits.
const subscriberBytes = 24 << 10
