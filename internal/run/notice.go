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
