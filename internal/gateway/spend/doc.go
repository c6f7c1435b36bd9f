// Package spend keeps account of what runs cost and holds them to their
// budgets: prices of models, what a request may cost at most, what it did cost,
// and whether it still fits. With that it keeps account of the hosts they reach.
// The book itself, Ledger, is in the database of package store.
//
// Invariants:
//
//   - A request is paid for before it is sent: its worst case is reserved, on
//     disk, and what is left of it is given back once its cost is known. A
//     process that dies in between leaves the reservation standing. So a crash
//     may count too much, and never too little.
//   - What is reserved and what was spent never add up to more than any limit
//     that holds for the request, whatever runs at the same time.
//   - A host is noted before it is reached. A start that has ended has no
//     connection to any, and its report then says how often and how much.
//   - Money is counted in whole billionths of a dollar; nothing is rounded away.
package spend
