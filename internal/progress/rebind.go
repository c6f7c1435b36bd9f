package progress

// Rebind says that the document, which belongs to the same subject, now follows
// the plan of that hash. A document without a binding gets one.
func (d *Doc) Rebind(b Binding) error {
	rest := d.src
	if m := bindingRE().FindIndex(d.src); m != nil {
		rest = d.src[m[1]:]
	}
	next, err := Parse(append([]byte(b.comment()+"\n"), rest...))
	if err != nil {
		return err
	}
	*d = *next
	return nil
}
