// Package spend keeps account of what runs cost and holds them to their
// budgets: prices of models, what requests cost, and whether there is something left.
// With that it keeps account of the hosts they reach.
// The book itself, Ledger, is in the database of package store.
//
// Invariants:
//
//   - A request is let through where no budget that holds for it is used up, and charged
//     when its cost is known.
//   - A budget is overrun at most by what the requests under way cost; what is under way
//     when the process dies is not charged.
//   - An answer that breaks off is charged all that was asked for.
//   - A host is noted before it is reached. A start that has ended has no
//     connection to any, and its report then says how often and how much.
//   - Money is counted in whole billionths of a dollar; nothing is rounded away.
package spend
