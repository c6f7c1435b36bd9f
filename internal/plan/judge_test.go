package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bugForm is GitHub's own template for bug reports as it comes.
const bugForm = `**Describe the bug**
A clear and concise description of what the bug is.

**To Reproduce**
Steps to reproduce the behavior:
1. Go to '...'
2. Click on '....'
3. Scroll down to '....'
4. See error

**Expected behavior**
A clear and concise description of what you expected to happen.

**Screenshots**
If applicable, add screenshots to help explain your problem.

**Desktop (please complete the following information):**
 - OS: [e.g. iOS]
 - Browser [e.g. chrome, safari]
 - Version [e.g. 22]

**Additional context**
Add any other context about the problem here.
`

// issueForm is what GitHub makes of a form in which only the last field was
// filled in.
const issueForm = `### What happened?

_No response_

### Relevant log output

` + "```shell\n_No response_\n```" + `

### Version

1.4.2

### Code of Conduct

- [X] I agree to follow this project's Code of Conduct
`

type issueText struct {
	name, title, body string
}

// clear are issues that a person could begin to work on.
var clearIssues = []issueText{
	{"title alone", "Fix the panic in cmd/foo when --bar is empty", ""},
	{"title with an identifier", "Rename `parseArgs` to `parseFlags`", ""},
	{"typo", "Fix typo in README", ""},
	{"small feature", "Add dark mode", ""},
	{"small support", "Support Python 3.13", ""},
	{"tests for something", "Add tests for the user page", "Please."},
	{"dead code", "Remove dead code", ""},
	{"version", "Bump Go to 1.26", ""},
	{"dependencies", "Upgrade dependencies", "renovate is off."},
	{"prefix", "feat: export to CSV", ""},
	{"bracket", "[Feature] Sort the list by date", ""},
	{"greeting", "Say hello", "Please greet everybody, in two files."},
	{"tasks", "Cleanup", "- [ ] one\n- [ ] two\n"},
	{"criteria", "Make it better", "## Done when\n- The page loads\n"},
	{"accept line", "Make it faster", "Accept: it takes half as long as now"},
	{"code", "It does not work", "```\nReferenceError: foo is not defined\n```"},
	{
		"stack trace", "Crash",
		"panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:12\n",
	},
	{"error text", "Broken build", "Since yesterday I get `undefined: slices.Collect` when I build."},
	{"expected and actual", "Wrong total", "Expected the total to be 12, but got 11 for two carts."},
	{
		"form", "Login fails",
		"### What happened?\n\nThe login button stays grey after I paste a password from my manager.\n\n### Expected behavior\n\nIt becomes active.\n\n### Version\n\n_No response_\n",
	},
	{"question that asks for something", "Could we get a --json flag?", "Is there a way to print the report as JSON?"},
	{"polite", "Colours", "Would it be possible to disable colours when stdout is no terminal?"},
	{"question about a fault", "Why does `report` exit with 2?", "Why does it exit with 2 when the file is empty?"},
	{
		"performance with a measure", "List is slow",
		"GET /items takes 4 s with 10,000 items, it should take less than 200 ms.",
	},
	{"story", "CSV import", "As a shop owner I want to import products from a CSV file so that I need not type them."},
	{
		"long prose", "Retry",
		"The uploader gives up after the first timeout. Networks on trains are flaky, so try again three times with growing pauses and report the last reason.",
	},
	{
		"list", "Settings",
		"The dialog needs:\n- a field for the proxy host\n- a field for the proxy port\n- a button that tests the connection\n",
	},
	{"quoted", "Wrong label", `The button says "Sumbit".`},
	{
		"link and words", "Follow the spec",
		"https://example.com/rfc says that the header is optional; accept requests without it.",
	},
	{"German", "Dunkelmodus einbauen", ""},
	{"German question", "Export", "Könnte man den Export in der App beschleunigen?"},
	{
		"German report", "Absturz beim Speichern",
		"Wenn der Dateiname ein Leerzeichen enthält, stürzt der Editor beim Speichern ab.",
	},
	{"German steps", "Export ergänzen", "Bitte einen CSV-Export für Rechnungen ergänzen, mit Datum und Betrag."},
	{"French", "Ajouter un mode sombre", "Le bouton doit se trouver dans les préférences."},
	{"Spanish", "Añadir exportación a CSV", "El informe mensual debe poder descargarse como CSV."},
	{"Portuguese", "Adicionar modo escuro", "O botão deve ficar nas preferências."},
	{"Polish", "Dodaj tryb ciemny", ""},
	{"Russian", "Добавить тёмную тему", "Переключатель должен быть в настройках."},
	{"Japanese", "ダークモードを追加してください", ""},
	{"Chinese", "修复配置文件为空时程序崩溃的问题", ""},
	{"Korean", "다크 모드를 추가해 주세요", "설정 화면에 버튼이 필요합니다."},
	{"Arabic", "إضافة الوضع الداكن", "يجب أن يكون الزر في صفحة الإعدادات."},
	{"Hebrew", "להוסיף מצב כהה", "הכפתור צריך להיות בהגדרות."},
	{"Hindi", "डार्क मोड जोड़ें", "बटन सेटिंग्स में होना चाहिए।"},
	{"Turkish", "Karanlık mod ekle", "Düğme ayarlarda olmalı."},
	{"Finnish", "Lisää tumma tila", ""},
	{"Thai", "เพิ่มโหมดมืดในหน้าการตั้งค่า", ""},
}

// vagueIssues are issues that nobody could begin to work on without asking.
var vagueIssues = []struct {
	issueText
	missing []Gap
}{
	{issueText{"nothing", "Do it", ""}, []Gap{GapWhat, GapCheck}},
	{issueText{"better", "Make it better", "It should be much better than now."}, []Gap{GapWhat, GapCheck}},
	{issueText{"faster", "Improve performance", "The app is slow, please make it faster."}, []Gap{GapMeasure, GapCheck}},
	{issueText{"cleaner", "Refactor the code", "The code is messy. Clean it up."}, []Gap{GapWhat, GapCheck}},
	{issueText{"does not work", "Bug", "It doesn't work."}, []Gap{GapExpected, GapCheck}},
	{
		issueText{"bugs", "Fix the bugs in the app", "There are many bugs and problems, and users complain."},
		[]Gap{GapExpected, GapCheck},
	},
	{
		issueText{"broken", "Login broken", "Login is broken since last week, please fix asap"}, []Gap{GapExpected, GapCheck},
	},
	{issueText{"crashes", "App crashes", "The app crashes all the time!!!"}, []Gap{GapExpected, GapCheck}},
	{issueText{"docs", "Update docs", "Docs are outdated."}, []Gap{GapWhat, GapCheck}},
	{issueText{"tests", "Write more tests", ""}, []Gap{GapWhat, GapCheck}},
	{
		issueText{"design", "Improve the UI and UX of the website", "The design looks old. Make it modern and professional."},
		[]Gap{GapWhat, GapCheck},
	},
	{
		issueText{
			"everything", "Improve everything",
			"Code quality, tests, documentation, performance and security of the whole project.",
		},
		[]Gap{GapMeasure, GapCheck},
	},
	{issueText{"feature", "Add a feature", ""}, []Gap{GapWhat, GapCheck}},
	{issueText{"question", "Question", "How does this work?"}, []Gap{GapChange, GapCheck}},
	{
		issueText{
			"question about something", "Question about the proxy",
			"How do I configure the proxy? Where does the cache live on Windows machines?",
		},
		[]Gap{GapChange, GapCheck},
	},
	{issueText{"help", "Help!!", "Can somebody help me please?"}, []Gap{GapWhat, GapCheck}},
	{issueText{"picture", "Broken layout", "![](https://example.com/a.png)"}, []Gap{GapPicture, GapExpected, GapCheck}},
	{
		issueText{"picture tag", "UI", `<img width="400" src="https://example.com/a.png">`},
		[]Gap{GapPicture, GapWhat, GapCheck},
	},
	{issueText{"bug template", "Bug", bugForm}, []Gap{GapTemplate, GapExpected, GapCheck}},
	{issueText{"issue form", "[Bug]: ", issueForm}, []Gap{GapTemplate, GapWhat, GapCheck}},
	{
		issueText{"headings", "New feature", "## Summary\n\n## Motivation\n\n## Proposal\n"},
		[]Gap{GapTemplate, GapWhat, GapCheck},
	},
	{issueText{"link", "See this", "https://example.com/some/long/path/file.go"}, []Gap{GapWhat, GapCheck}},
	{issueText{"to do", "TODO", "TBD"}, []Gap{GapWhat, GapCheck}},
	{issueText{"Chinese", "改进性能", ""}, []Gap{GapWhat, GapCheck}},
	// Known to be let through: praise and complaint at length have words in
	// them that no list has.
	{
		issueText{
			"ramble", "Modernise",
			"Our brand deserves an experience that delights. Competitors are ahead, the board is nervous, and morale suffers.",
		},
		nil,
	},
	{issueText{"another language", "Mach es besser", "Bitte alles schöner und schneller machen."}, nil},
}

// TestJudge holds Judge against issues as people write them. The bar is no false
// alarm, and at most one vague issue in ten let through.
func TestJudge(t *testing.T) {
	t.Parallel()
	alarms := 0
	for _, tt := range clearIssues {
		p := mustPlan(t, tt.title, tt.body)
		if v := Judge(p); v.Vague || len(v.Missing) > 0 {
			alarms++
			t.Errorf("%s: %q is called vague with %d points, %q", tt.name, tt.title, v.Score, v.Missing)
		}
	}
	missed := 0
	for _, tt := range vagueIssues {
		v := Judge(mustPlan(t, tt.title, tt.body))
		if !v.Vague {
			missed++
		}
		if diff := cmp.Diff(tt.missing, v.Missing); diff != "" {
			t.Errorf("%s, %d points: what is missing (-want +got)\n%s", tt.name, v.Score, diff)
		}
	}
	if len(clearIssues)+len(vagueIssues) < 40 || missed*10 > len(vagueIssues) {
		t.Errorf("%d of %d vague issues were let through", missed, len(vagueIssues))
	}
	t.Logf("%d of %d clear issues called vague, %d of %d vague ones let through", alarms, len(clearIssues), missed,
		len(vagueIssues))
}

// TestJudgeUnseen holds Judge against issues that its rules and words were not
// made with. It calls none of these 36 vague that are not, and lets 1 of 12
// through; the bar is one in ten of either.
func TestJudgeUnseen(t *testing.T) {
	t.Parallel()
	clearer := [][2]string{
		{"Typo on pricing page", "It says \"Starter planns\"."},
		{"Make tests run in parallel", ""},
		{"README is missing installation instructions", ""},
		{"Pagination is off by one", "The second page repeats the last item of the first."},
		{"Support XDG_CONFIG_HOME", ""},
		{"Use structured logging", "Replace fmt.Println by slog."},
		{"Drop Node 16", ""},
		{"Memory leak in websocket handler", "Connections stay in the map after close."},
		{"Let users delete their account", ""},
		{"Email validation rejects plus signs", "foo+bar@example.com is refused."},
		{"Update copyright year", "It is 2026."},
		{"Make the timeout configurable", "It is hard-coded to 30 seconds."},
		{"Fix flaky TestRetry", ""},
		{"Sidebar overlaps the footer on small screens", ""},
		{"Cache GitHub API responses", ""},
		{"Improve error message when the token has expired", ""},
		{"Logo not shown in dark mode", ""},
		{"Refactor UserService into two services", "One for accounts, one for sessions."},
		{"Tippfehler auf der Startseite", "Dort steht \"Wilkommen\"."},
		{"Passwort zurücksetzen geht nicht", "Der Link aus der Mail führt auf eine leere Seite."},
		{"Erreur 500 à la connexion", "Quand le mot de passe contient un accent."},
		{"ログインできない", "パスワードに日本語が含まれているとエラーになります。"},
		{"Il pulsante salva non funziona", "Dopo il primo clic resta disabilitato."},
		{"Knop voor exporteren toevoegen", ""},
		{"Add pre-commit config", ""},
		{"Remove jQuery", ""},
		{"Fix lint warnings", ""},
		{"Write unit tests for the date parser", ""},
		{"Translate the UI to Spanish", ""},
		{"Add LICENSE", ""},
		{"Add CI", "GitHub Actions that runs go test."},
		{"Rounding", "Prices are rounded down but should be rounded to the nearest cent."},
		{"Search is case sensitive", ""},
		{"Set up Docker", ""},
		{"Delete old logs after 30 days", ""},
		{"Dark mode", ""},
	}
	vaguer := [][2]string{
		{"Please fix", "It's not working as it should."},
		{"Code quality", "We need better code quality in this project."},
		{"Improve UX", "Users find the app confusing."},
		{"Something is wrong", "I don't know what happened but it broke."},
		{"Optimize", "Optimize the database and the server please"},
		{"Feature request", "I would like a new feature that makes the app better."},
		{"Bugs", "Please fix all bugs."},
		{"question", "What is this project for?"},
		{"Improve documentation", "The documentation should be improved."},
		{"Problem", "Hi, I have a problem, can anyone help? Thanks!"},
		{"Make app production ready", ""},
		{"Security", "Make it more secure."},
	}
	alarms, missed := 0, 0
	for _, text := range clearer {
		if v := Judge(mustPlan(t, text[0], text[1])); v.Vague {
			alarms++
			t.Logf("called vague with %d points: %q", v.Score, text)
		}
	}
	for _, text := range vaguer {
		if v := Judge(mustPlan(t, text[0], text[1])); !v.Vague {
			missed++
			t.Logf("let through with %d points: %q", v.Score, text)
		}
	}
	if alarms*10 > len(clearer) || missed*10 > len(vaguer) {
		t.Errorf("%d of %d clear issues called vague, %d of %d vague ones let through", alarms, len(clearer), missed,
			len(vaguer))
	}
}

func mustPlan(t *testing.T, title, body string) Plan {
	t.Helper()
	p, err := FromIssue(title, body)
	if err != nil {
		t.Fatalf("%q: %v", title, err)
	}
	return p
}

// TestQuestions: every gap has a question of its own, and a vague plan at least
// one.
func TestQuestions(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range []Gap{GapPicture, GapTemplate, GapChange, GapWhat, GapExpected, GapMeasure, GapCheck} {
		q := g.Question()
		if len(q) < 20 || seen[q] || !strings.Contains(q, "?") {
			t.Errorf("%s asks %q", g, q)
		}
		seen[q] = true
	}
	got := Judge(mustPlan(t, "Make it faster", "")).Questions()
	if diff := cmp.Diff([]string{GapMeasure.Question(), GapCheck.Question()}, got); diff != "" {
		t.Error(diff)
	}
}
