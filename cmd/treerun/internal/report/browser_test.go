package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// browser is a headless Chromium.
type browser struct {
	t      *testing.T
	path   string
	folder string
}

func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	testutil.Need(t, testutil.Chromium, err)
	return &browser{t: t, path: path, folder: t.TempDir()}
}

// run runs the browser with a page, and returns its output and the messages of its console. All requests of other
// hosts go to a proxy that refuses them and counts those that are the page's.
func (b *browser) run(page string, flags ...string) (out, console string) {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	defer l.Close()
	requests := make(chan string, 100)
	go func() {
		defer close(requests)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			head := make([]byte, 200)
			_ = c.SetDeadline(time.Now().Add(time.Second))
			n, _ := c.Read(head)
			_ = c.Close()
			line, _, _ := strings.Cut(string(head[:n]), "\r\n")
			select {
			case requests <- line:
			default:
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--disable-default-apps", "--disable-dev-shm-usage", "--virtual-time-budget=3000", "--enable-logging=stderr", "--v=0",
		"--proxy-server=http://" + l.Addr().String(), "--proxy-bypass-list=<-loopback>",
		"--user-data-dir=" + b.t.TempDir()}, flags...)
	cmd := exec.CommandContext(ctx, b.path, append(args, "file://"+page)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 5*time.Second
	if err := cmd.Run(); err != nil {
		b.t.Fatalf("chromium: %v\n%s", err, &stderr)
	}
	_ = l.Close()
	for line := range requests { // those of the browser itself go to its maker
		if !strings.Contains(line, "google") && !strings.Contains(line, "gvt1.com") {
			b.t.Errorf("%s requests %q", page, line)
		}
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			console += line
		}
	}
	return stdout.String(), console
}

// write writes a file for the browser.
func (b *browser) write(name string, data []byte) string {
	b.t.Helper()
	file := filepath.Join(b.folder, name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// colors returns the number of colors in a picture, and whether most of it is dark.
func colors(t *testing.T, file string) (image.Rectangle, int, bool) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	all, dark, n := make(map[[3]uint32]bool), 0, 0
	for y := m.Bounds().Min.Y; y < m.Bounds().Max.Y; y += 3 {
		for x := m.Bounds().Min.X; x < m.Bounds().Max.X; x += 3 {
			r, g, b, _ := m.At(x, y).RGBA()
			all[[3]uint32{r >> 8, g >> 8, b >> 8}] = true
			if r+g+b < 3*0x6000 {
				dark++
			}
			n++
		}
	}
	return m.Bounds(), len(all), 2*dark > n
}

// probe shows a page at 400 pixels, and at 1200, and puts its findings in the title: whether the page is wider than
// that, whether headings can be pressed by keyboard, and whether that sorts.
const probe = `<!DOCTYPE html><meta charset="utf-8"><title>none</title><script>
const page = %s, found = [];
addEventListener("load", async () => {
  for (const width of [400, 1200]) {
    const frame = document.createElement("iframe");
    frame.style.width = width + "px"; frame.style.height = "900px"; frame.srcdoc = page;
    await new Promise((done) => { frame.onload = done; document.body.append(frame); });
    const d = frame.contentDocument;
    const images = [...d.images].filter((i) => i.complete && i.naturalWidth > 0).length;
    const button = d.querySelector("table.sort th:nth-child(3) button");
    const pids = () => [...d.querySelectorAll("#ranks tbody tr td:nth-child(3)")].map((c) => Number(c.textContent));
    button.focus(); button.click();
    const rising = pids(); button.click(); const falling = pids();
    const sorted = rising.every((v, i) => i === 0 || rising[i - 1] <= v) && falling[0] === rising[rising.length - 1];
    const named = [...d.querySelectorAll("table")].every((t) => t.querySelector("th[scope]"));
    found.push({ width, wide: d.documentElement.scrollWidth, images: images === d.images.length && images,
      focus: d.activeElement === button, sorted, named, headings: d.querySelectorAll("h1, h2").length });
  }
  document.title = JSON.stringify(found);
});
</script><body></body>`

// TestBrowser: a real browser shows the page, with no message in its console, without a request to anywhere, as wide as
// its window, light and dark; its tables can be sorted by keyboard.
func TestBrowser(t *testing.T) {
	b := openBrowser(t)
	data, err := html(sample())
	if err != nil {
		t.Fatal(err)
	}
	page := b.write("report.html", data)
	for _, dark := range []bool{false, true} {
		shot := filepath.Join(b.folder, fmt.Sprintf("dark-%v.png", dark))
		flags := []string{"--window-size=1200,2400", "--screenshot=" + shot}
		if dark {
			flags = append(flags, "--blink-settings=preferredColorScheme=0")
		}
		if _, console := b.run(page, flags...); console != "" {
			t.Errorf("the console has %s", console)
		}
		bounds, n, isDark := colors(t, shot)
		if bounds.Dx() != 1200 || n < 50 || isDark != dark {
			t.Errorf("dark %v: a picture of %v with %d colors, dark: %v", dark, bounds, n, isDark)
		}
	}
	text, err := json.Marshal(string(data))
	if err != nil {
		t.Fatal(err)
	}
	dom, console := b.run(b.write("probe.html", fmt.Appendf(nil, probe, text)), "--dump-dom", "--window-size=1300,1000")
	if console != "" {
		t.Errorf("the console has %s", console)
	}
	_, title, _ := strings.Cut(dom, "<title>")
	title, _, _ = strings.Cut(title, "</title>")
	var found []struct {
		Width, Wide, Images, Headings int
		Focus, Sorted, Named          bool
	}
	if err := json.Unmarshal([]byte(title), &found); err != nil || len(found) != 2 {
		t.Fatalf("%v: %.300s", err, dom)
	}
	for _, f := range found {
		if f.Wide > f.Width || f.Images == 0 || f.Headings < 8 || !f.Focus || !f.Sorted || !f.Named {
			t.Errorf("%+v", f)
		}
	}
	pdf := filepath.Join(b.folder, "report.pdf")
	if _, console := b.run(page, "--print-to-pdf="+pdf, "--no-pdf-header-footer"); console != "" {
		t.Errorf("on paper the console has %s", console)
	}
	if info, err := os.Stat(pdf); err != nil || info.Size() < 20_000 {
		t.Errorf("on paper: %v, %v", info, err)
	}
}
