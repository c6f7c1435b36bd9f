package progress

// Place is where a task stands in the bytes of its document, for those who
// read the same file in another system's words and edit it there.
type Place struct {
	// Box is the byte between the brackets.
	Box int
	// Suffix is where "(blocked: …)" begins or would, with the space before
	// it, and TextEnd the end of the task's text; src[Suffix:TextEnd] is what
	// a new mark replaces.
	Suffix, TextEnd int
}

// Places gives the place of each task, in the order of Tasks. Offsets count
// from the start of Bytes.
func (d *Doc) Places() []Place {
	out := make([]Place, len(d.tasks))
	for i, t := range d.tasks {
		n := len(d.prefix)
		out[i] = Place{Box: t.box + n, Suffix: t.suffix + n, TextEnd: t.textEnd + n}
	}
	return out
}
