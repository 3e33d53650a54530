package docs_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// notOurs are texts of the Go runtime and of the system in the table of troubleshooting.md.
var notOurs = map[string]bool{"exit code 127": true, "fatal error": true, "runtime: ...": true, "ftruncate": true,
	"fallocate ... file too large": true, "exec format error": true}

// TestMessages: the messages that troubleshooting.md quotes are those that the code prints. A number stands for any
// number or verb, and "..." for any text.
func TestMessages(t *testing.T) {
	var printed strings.Builder
	for _, s := range sources(t) {
		ast.Inspect(s.File, func(n ast.Node) bool {
			text, ok := literal(n)
			if ok {
				printed.WriteString(text + "\n")
			}
			return !ok
		})
	}
	found, number := 0, regexp.MustCompile(`\d+( \w+)?`)
	for line := range strings.Lines(read(t, "troubleshooting.md")) {
		symptom, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(symptom, -1) {
			if notOurs[quoted[1]] {
				continue
			}
			pattern := number.ReplaceAllString(regexp.QuoteMeta(strings.TrimPrefix(quoted[1], "treerun: ")),
				`(?:(?:\d+|%\w)$1|%s)`)
			pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, `\.\.\.`, ".*"), "v(?:", "v?(?:")
			if !regexp.MustCompile(pattern).MatchString(printed.String()) {
				t.Errorf("troubleshooting.md quotes %q, which no code prints: %s", quoted[1], pattern)
			}
			found++
		}
	}
	if found < 10 {
		t.Errorf("found %d messages: the test looks in the wrong place", found)
	}
}

// literal returns the value of a string literal, or of several that are concatenated.
func literal(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		return text, err == nil && n.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := literal(n.X)
		right, also := literal(n.Y)
		return left + right, ok && also && n.Op == token.ADD
	}
	return "", false
}
