package claim

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/org/ralph-action/internal/strs"
)

// numbers are the words that people count small things with.
var numbers = func() map[string]int {
	out := map[string]int{}
	for _, words := range []string{
		"one two three four five six seven eight nine ten eleven twelve",
		"eins|ein|eine|einer|eines|einem zwei drei vier funf sechs sieben acht neun zehn elf zwolf",
		"un|une deux trois quatre cinq six sept huit neuf dix onze douze",
		"uno|una dos tres cuatro cinco seis siete ocho nueve diez once doce",
		"um|uma dois|duas tres quatro cinco seis sete oito nove dez onze doze",
	} {
		for i, forms := range strings.Fields(words) {
			for form := range strings.SplitSeq(forms, "|") {
				out[form] = i + 1
			}
		}
	}
	return out
}()

// numeral matches a number, in digits or words.
var numeral = `\d{1,4}|` + strings.Join(slices.Sorted(maps.Keys(numbers)), "|")

var (
	share = strs.Lazy(`\b(` + numeral + `)(?: ?/ ?| ([a-z]+ )?(?:out of|of|von|sur|des|de|dos|das|from) ` +
		`(?:the |our |these |all |den |insgesamt |los |las |les |total )?)(` + numeral + `)\b`)
	// shareDone says that a share is of work done.
	shareDone = strs.Lazy(`\b(?:done|ready|green|in place|works?|working|wrote|written|rewritten|met|hold|holds|fulfilled|satisfied|` +
		`(?:finish|complet|implement|migr|convert|port|cover|updat|mov|translat|refactor|replac|handl|fix|pass|succe|annotat|clean|` +
		`adapt|renam|extract|document|process|support|wir|solv|test|verif)\w*|` +
		`fertig|erledigt|umgestellt|umgesetzt|portiert|angepasst|abgeschlossen|grun|laufen|bestehen|umbenannt|erfullt|` +
		`(?:migrier|konvertier|implementier|ubersetz)\w*|` +
		`(?:termin|fait|tradui|trait|achev|renomm|rempli|gere)\w*|passent|` +
		`(?:hech|list|traduc|acab|renombr|cumpl|funcion)\w*|pasan|` +
		`(?:feit|pront|conclu|traduz|renome|atend)\w*|passam|passaram|are|sind|sont|son|sao|estan|estao)\b`)
	shareTests = strs.Lazy(`\b(?:tests?|specs?|pruebas|testes|assertions?|checks?)\b`)
	sharePass  = strs.Lazy(`\b(?:pass\w*|green|succe\w*|grun|laufen|bestehen|pas(?:an|aron)|vert\w*|verdes?)\b`)
	// article counts nothing before a noun: "a copy of 4 million rows".
	article = strs.Lazy(`^(?:une?|un[oa]|uma?|ein\w*)$`)
	// shareOther finds shares of something else: which task, which attempt, and
	// tests that are skipped by design.
	shareOther = strs.Lazy(`\b(?:task|step|iteration|attempt|page|phase|part|story|line|version|aufgabe|schritt|etape|tache|paso|tarea|tarefa|passo|iteracao)s? #?$`)
	// shareRest explains why the others of a share need nothing.
	shareRest = strs.Lazy(`\b(?:others?|rest|remaining|anderen?|ubrigen?|restlichen?|autres?|otr[oa]s|resto|outr[oa]s|demais)\b[^.]*\b(?:` +
		`should stay|stays? as|(?:need|require)s? no\w*|(?:donot|doesnot|didnot|never) (?:need|require|use|have)\w*|already|on purpose|` +
		`unaffected|(?:was|were|are) (?:fine|correct|unaffected|not affected)|(?:are|is) (?:generated|(?:in |only )?comments?)|equal|` +
		`brauch\w+ keine?\w*|schon|bereits|sind nicht betroffen|n'ont pas besoin|deja|no (?:necesita|requiere|hac)\w*|ya (?:esta|usa|era)\w*|` +
		`nao (?:precisa|requer)\w*|ja (?:esta|usa|era)\w*)\b`)
	// shareShown is of what the program shows: "3 of 8 steps done".
	shareShown = strs.Lazy(`\b(?:shows?|displays?|prints?|reads|says|reports|zeigt|meldet|affiche|indique|muestra|indica|mostra|exibe)\b[^.;]*$`)
	shareTasks = strs.Lazy(`^ (?:failing|failed|flaky|broken|red)\b|\b(?:faster|slower|schneller|plus rapides?)\b|^ (?:[a-z]+ )?(?:tasks?|stories|aufgaben|taches|tareas|tarefas)\b|\bskipped\b|\bubersprungen\b`)
)

// counts reads "1 of the 10 modules is migrated" and "3/10 done".
func (s sentence) counts(next sentence) Kind {
	if shareRest().MatchString(s.plain) || shareRest().MatchString(next.plain) {
		return None
	}
	for _, at := range share().FindAllStringSubmatchIndex(s.plain, maxMatches) {
		some, ok := number(s.plain[at[2]:at[3]])
		all, okAll := number(s.plain[at[6]:at[7]])
		if !ok || !okAll || some >= all || at[4] >= 0 && article().MatchString(s.plain[at[2]:at[3]]) {
			continue
		}
		if shareOther().MatchString(s.plain[:at[0]]) || shareShown().MatchString(s.plain[:at[0]]) ||
			shareTasks().MatchString(s.plain[at[1]:]) || !shareDone().MatchString(s.plain) {
			continue
		}
		if shareTests().MatchString(s.plain[at[1]:]) && sharePass().MatchString(s.plain) {
			return Failed
		}
		return Partial
	}
	return None
}

func number(word string) (int, bool) {
	if n, ok := numbers[word]; ok {
		return n, true
	}
	n, err := strconv.Atoi(word)
	return n, err == nil
}
