package main

// readyz asks the server whether it does its work.
func (st *stage) readyz() (status int, body string) {
	st.t.Helper()
	return ask(st.t, st.hookURL+"/readyz")
}
