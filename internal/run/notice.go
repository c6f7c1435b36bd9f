package run

// Notice is an occasion to tell people of a run elsewhere than on GitHub.
type Notice string

// The occasions there are.
const (
	NoticeStart    Notice = "start"
	NoticeProgress Notice = "progress"
	NoticeFinish   Notice = "finish"
	// NoticeNeedsHuman is a finish after which a person has to do something.
	NoticeNeedsHuman Notice = "needs_human"
)

// Notices are all of them.
func Notices() []Notice {
	return []Notice{NoticeStart, NoticeProgress, NoticeFinish, NoticeNeedsHuman}
}

// NoticeChoice is what a repository wants told of its runs, of what the operator
// has set up. A nil list leaves all of it, an empty one nothing.
type NoticeChoice struct {
	Notices []Notice
	// Targets are names of the operator's.
	Targets []string
}
