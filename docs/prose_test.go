package docs_test

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stumbles are phrases at which a reader of Go's standard library stumbles: processes that speak, words for persons,
// clauses in place of nouns, a count without a name, and words that other projects do not use.
var stumbles = regexp.MustCompile(`(?i)\b(tells?|told|says?|said|hears?|heard|asks?|asked|` +
	`nobody|somebody|whoever|everybody|so many|however many|` +
	`what (is|are|was|were|has|have|had|it|they|he|others|ranks|comes|came|does|can)|` +
	`alike|anew|for ever|gets? on|goes on|come to nothing|all the same|at hand)\b`)

// tolerated is the number of them per 1,000 words: of all comments and pages, and of a folder with over 1,000 words.
const (
	tolerated         = 0.5
	toleratedInFolder = 2
)

// TestProse: comments and pages are written in plain technical English. Text between backquotes is not counted. A
// message, which is a string with a space outside tests, has none of these phrases.
func TestProse(t *testing.T) {
	words, found, examples := map[string]int{}, map[string]int{}, map[string][]string{}
	count := func(place, text string) {
		folder := path.Dir(place)
		words[folder] += len(strings.Fields(text))
		for _, at := range stumbles.FindAllStringIndex(text, -1) {
			found[folder]++
			around := text[max(0, at[0]-30):min(len(text), at[1]+30)]
			around = strings.Join(strings.Fields(around), " ")
			examples[folder] = append(examples[folder], fmt.Sprintf("%s: ...%s...", place, around))
		}
	}
	code := regexp.MustCompile("`[^`\n]*`")
	for _, s := range sources(t) {
		for _, group := range s.Comments {
			count(s.path, code.ReplaceAllString(group.Text(), ""))
		}
		if s.test || within(s.pkg, testSupport) {
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			text, ok := literal(n)
			if phrase := stumbles.FindString(text); phrase != "" && strings.Contains(text, " ") {
				t.Errorf("%s: %q in the message %q", fset.Position(n.Pos()), phrase, text)
			}
			return !ok
		})
	}
	inside, err := filepath.Glob("inside/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range slices.Concat(pages(t), forOthers, inside) {
		for _, line := range proseOf(t, page) {
			count(path.Join("docs", page), code.ReplaceAllString(line, ""))
		}
	}
	allWords, allFound := 0, 0
	for folder, n := range words {
		allWords, allFound = allWords+n, allFound+found[folder]
	}
	rate := func(found, words int) float64 { return 1000 * float64(found) / float64(words) }
	if r := rate(allFound, allWords); r > tolerated {
		t.Errorf("%.1f phrases per 1,000 words, at most %v", r, tolerated)
	}
	for _, folder := range slices.Sorted(maps.Keys(words)) {
		if r := rate(found[folder], words[folder]); words[folder] > 1000 && r > toleratedInFolder {
			t.Errorf("%s: %.1f phrases per 1,000 words, at most %d:\n%s", folder, r, toleratedInFolder,
				strings.Join(examples[folder], "\n"))
		}
	}
	t.Logf("%d words, %d phrases, %.2f per 1,000", allWords, allFound, rate(allFound, allWords))
}
