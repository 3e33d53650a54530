package job_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/strict"
)

// valid returns the file of rank 1 of four on two hosts.
func valid() *job.File {
	return &job.File{
		Version: job.FileVersion, JobID: "7h2k", Epoch: 3, Secret: bytes.Repeat([]byte{7}, job.SecretBytes),
		Rank: 1, Size: 4, LocalRank: 1, LocalSize: 2, Host: "node01", Device: "GPU-5f1c", Hosts: []int{0, 0, 1, 1},
		ControlFD: 4, Settings: map[string]string{"no-topo-cache": "1"},
	}
}

func TestFileComesBackAsWritten(t *testing.T) {
	var b bytes.Buffer
	if err := job.WriteFile(&b, valid()); err != nil {
		t.Fatal(err)
	}
	got, err := job.ReadFile(iotest.OneByteReader(&b))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(valid(), got); d != "" {
		t.Fatal(d)
	}
}

// Each change makes one field wrong; the error names the field.
func TestFileWithAWrongFieldIsRefused(t *testing.T) {
	for want, spoil := range map[string]func(f *job.File){
		"version 99":            func(f *job.File) { f.Version = 99 },
		"job id \"\"":           func(f *job.File) { f.JobID = "" },
		"job id \"a b\"":        func(f *job.File) { f.JobID = "a b" },
		"epoch -1":              func(f *job.File) { f.Epoch = -1 },
		"epoch 1073741825":      func(f *job.File) { f.Epoch = job.MaxEpoch + 1 },
		"secret of 3 bytes":     func(f *job.File) { f.Secret = []byte("abc") },
		"size 0":                func(f *job.File) { f.Size = 0 },
		"size 65537":            func(f *job.File) { f.Size = 65537 },
		"rank 4, want":          func(f *job.File) { f.Rank = 4 },
		"rank -1, want":         func(f *job.File) { f.Rank = -1 },
		"local size 5":          func(f *job.File) { f.LocalSize = 5 },
		"2 ranks are on host 0": func(f *job.File) { f.LocalSize = 3 },
		"local rank 2, want":    func(f *job.File) { f.LocalRank = 2 },
		"host name of 0 bytes":  func(f *job.File) { f.Host = "" },
		"device \"GPU 1\"":      func(f *job.File) { f.Device = "GPU 1" },
		"hosts of 3 ranks":      func(f *job.File) { f.Hosts = f.Hosts[:3] },
		"rank 2 is on host 3":   func(f *job.File) { f.Hosts[2] = 3 },
		"rank 3 is on host -1":  func(f *job.File) { f.Hosts[3] = -1 },
		"descriptor 2":          func(f *job.File) { f.ControlFD = 2 },
		"without a name":        func(f *job.File) { f.Settings[""] = "x" },
	} {
		f := valid()
		spoil(f)
		if err := job.WriteFile(io.Discard, f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("writing: error %v, want one with %q", err, want)
		}
		b, err := msgpack.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := job.ReadFile(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("reading: error %v, want one with %q", err, want)
		}
	}
}

func TestFileOfAnotherShapeIsRefused(t *testing.T) {
	var b bytes.Buffer
	if err := job.WriteFile(&b, valid()); err != nil {
		t.Fatal(err)
	}
	unknown, err := msgpack.Marshal(map[string]int{"Version": job.FileVersion, "Color": 3})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty":         {},
		"cut":           b.Bytes()[:b.Len()-1],
		"left over":     append(b.Bytes(), 0),
		"unknown field": unknown,
		"too large":     make([]byte, job.MaxFile+1),
	} {
		if _, err := job.ReadFile(bytes.NewReader(data)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMessagesComeBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &job.Message{
			Kind:   job.MessageKind(rapid.IntRange(int(job.Seed), int(job.Stacks)).Draw(t, "kind")),
			Rank:   rapid.IntRange(0, job.MaxRanks-1).Draw(t, "rank"),
			PID:    rapid.IntRange(0, 1<<22).Draw(t, "pid"),
			Code:   rapid.IntRange(0, 255).Draw(t, "code"),
			Signal: rapid.IntRange(0, 64).Draw(t, "signal"),
			Closed: rapid.Bool().Draw(t, "closed"),
			Text:   rapid.StringN(1, 60, 240).Draw(t, "text"),
			Addrs:  []netip.AddrPort{netip.MustParseAddrPort("[fd00::1%eth0]:4000")},
			Epoch:  rapid.IntRange(0, job.MaxEpoch).Draw(t, "epoch"),
			Blob:   rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "blob"),
		}
		if want.Kind == job.Begins {
			want.Roster = roster()
			want.Roster.Epoch = max(want.Epoch, 1)
		}
		if want.Kind == job.Waits {
			want.Wait = &job.Wait{
				For: 10 * time.Second, In: "Barrier #1", Last: rapid.IntRange(-1, job.MaxRanks-1).Draw(t, "last"), Is: "is away",
				Text: want.Text, Least: 30 * time.Second,
			}
		}
		var b bytes.Buffer
		for range 2 {
			if err := job.WriteMessage(&b, want); err != nil {
				t.Fatal(err)
			}
		}
		r := iotest.HalfReader(&b)
		for range 2 {
			got, err := job.ReadMessage(r)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{})); d != "" {
				t.Fatal(d)
			}
		}
		if _, err := job.ReadMessage(r); err != io.EOF {
			t.Fatalf("at the end: %v, want io.EOF itself", err)
		}
	})
}

func TestMessageThatCannotBeUsedIsRefused(t *testing.T) {
	for want, m := range map[string]job.Message{
		"unknown message kind 0":  {},
		"unknown message kind 99": {Kind: 99},
		"rank -1":                 {Kind: job.Exited, Rank: -1},
		"rank 65536":              {Kind: job.Exited, Rank: job.MaxRanks},
		"process id -2":           {Kind: job.Exited, PID: -2},
		"exit code 256":           {Kind: job.Exited, Code: 256},
		"signal -9":               {Kind: job.Exited, Signal: -9},
		"0 addresses":             {Kind: job.SeedIs},
		"port 0":                  {Kind: job.Seed, Addrs: make([]netip.AddrPort, 1)},
		"text of 0 bytes":         {Kind: job.Failed},
		"text of 8193 bytes":      {Kind: job.Failed, Text: strings.Repeat("x", job.MaxFailure+1)},
		"65 addresses":            {Kind: job.Seed, Addrs: make([]netip.AddrPort, 65)},
		"want 1..65536":           {Kind: job.Exited, Text: strings.Repeat("x", job.MaxMessage)},
		"epoch -1":                {Kind: job.Renew, Epoch: -1},
		"epoch 1073741825":        {Kind: job.Renew, Epoch: job.MaxEpoch + 1},
		"blob of 4097 bytes":      {Kind: job.Renew, Blob: make([]byte, job.MaxBlob+1)},
		"no roster":               {Kind: job.Begins},
		"or one too many":         {Kind: job.Joined, Roster: roster()},
	} {
		if err := job.WriteMessage(io.Discard, &m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("writing %+.50v: error %v, want one with %q", m, err, want)
		}
	}
	// A length beyond the limit is refused before anything is allocated for it.
	for _, n := range []int{0, job.MaxMessage + 1, 1 << 31} {
		r := io.MultiReader(bytes.NewReader(strict.AppendHead(nil, byte(job.Joined), n)), endless{})
		if _, err := job.ReadMessage(r); err == nil || !strings.Contains(err.Error(), fmt.Sprint("has ", n, " bytes")) {
			t.Errorf("length %d: error %v", n, err)
		}
	}
	cut := strings.NewReader("\x02\x00\x00\x00\x00\x00\x00\x09abc")
	if _, err := job.ReadMessage(cut); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut message: error %v", err)
	}
}

// roster returns the roster of the second epoch of four ranks on two hosts, of which one was lost and one has joined.
func roster() *job.Roster {
	return &job.Roster{
		Epoch: 2, Secret: bytes.Repeat([]byte{9}, job.SecretBytes), Lost: []int{1, 2}, Joined: []int{2},
		Members: []job.Member{{Origin: 0, Host: 0, Blob: []byte("a")}, {Origin: 2, Host: 1, Blob: []byte("b")},
			{Origin: 3, Host: 1}},
	}
}

// Each change makes one field of a roster wrong; the error names the field.
func TestRosterThatCannotBeIsRefused(t *testing.T) {
	if err := job.WriteMessage(io.Discard, &job.Message{Kind: job.Begins, Roster: roster()}); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(r *job.Roster){
		"epoch 0 of a roster":                func(r *job.Roster) { r.Epoch = 0 },
		"epoch 1073741825 of a roster":       func(r *job.Roster) { r.Epoch = job.MaxEpoch + 1 },
		"secret of 31 bytes":                 func(r *job.Roster) { r.Secret = r.Secret[1:] },
		"secret of 0 bytes":                  func(r *job.Roster) { r.Secret = nil },
		"members: 0, want 1..65536":          func(r *job.Roster) { r.Members, r.Joined = nil, nil },
		"members: 65537, want":               func(r *job.Roster) { r.Members = make([]job.Member, job.MaxRanks+1) },
		"origin -1, want 0..65535":           func(r *job.Roster) { r.Members[0].Origin = -1 },
		"origin 65536, want 3..65535":        func(r *job.Roster) { r.Members[2].Origin = job.MaxRanks },
		"origin 2, want 3..65535":            func(r *job.Roster) { r.Members[2].Origin = 2 }, // twice
		"blob of 4097 bytes":                 func(r *job.Roster) { r.Members[1].Blob = make([]byte, job.MaxBlob+1) },
		"rank 0 is on host 1, want 0..0":     func(r *job.Roster) { r.Members[0].Host = 1 },
		"rank 2 is on host -1":               func(r *job.Roster) { r.Members[2].Host = -1 },
		"origin 1, want 3..65535":            func(r *job.Roster) { r.Lost[0], r.Lost[1] = 2, 1 },
		"origin -2, want 0..65535":           func(r *job.Roster) { r.Lost[0] = -2 },
		"origin 1 has joined and is no memb": func(r *job.Roster) { r.Joined[0] = 1 },
	} {
		r := roster()
		spoil(r)
		m := &job.Message{Kind: job.Begins, Roster: r}
		if err := job.WriteMessage(io.Discard, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("writing: error %v, want one with %q", err, want)
		}
		body := strict.Marshal(m)
		b := append(strict.AppendHead(nil, byte(job.Begins), len(body)), body...)
		if _, err := job.ReadMessage(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("reading: error %v, want one with %q", err, want)
		}
	}
}

// A job of many ranks has a roster that is longer than any other message.
func TestRosterOfManyRanks(t *testing.T) {
	r := roster()
	r.Members, r.Lost, r.Joined = nil, nil, nil
	for i := range 4096 {
		r.Members = append(r.Members, job.Member{Origin: i, Host: i / 8, Blob: bytes.Repeat([]byte{byte(i)}, 400)})
	}
	var b bytes.Buffer
	if err := job.WriteMessage(&b, &job.Message{Kind: job.Begins, Roster: r}); err != nil || b.Len() <= job.MaxMessage {
		t.Fatalf("%d bytes, error %v", b.Len(), err)
	}
	if m, err := job.ReadMessage(&b); err != nil || !cmp.Equal(m.Roster, r) {
		t.Fatalf("roster %.200v, error %v", m, err)
	}
}

// endless fails the test that reads it.
type endless struct{}

func (endless) Read([]byte) (int, error) { panic("read past a length that cannot be") }

func TestSecretsAndIDsDiffer(t *testing.T) {
	a, b := job.NewSecret(), job.NewSecret()
	if len(a) != job.SecretBytes || bytes.Equal(a, b) {
		t.Fatalf("secrets of %d bytes, equal %v", len(a), bytes.Equal(a, b))
	}
	if x, y := job.NewID(), job.NewID(); x == y || len(x) != 13 {
		t.Fatalf("ids %q and %q", x, y)
	}
}

// Data that is read without an error can be written, and is read again unchanged.
func FuzzReadFile(f *testing.F) {
	var b bytes.Buffer
	if err := job.WriteFile(&b, valid()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{})
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})                                      // a map of 2^32-1 entries
	f.Add([]byte("\x81\xa5Hosts\xdd\xff\xff\xff\xff"))                               // an array likewise
	f.Add([]byte("\x81\xa6Secret\xc6\xff\xff\xff\xff"))                              // bytes likewise
	f.Add([]byte("\x81\xa8Settings" + strings.Repeat("\x91", 2000)))                 // nested
	f.Add(bytes.Replace(b.Bytes(), []byte("Version\x02"), []byte("Version\x03"), 1)) // another version
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := job.ReadFile(bytes.NewReader(data))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := job.WriteFile(&again, got); err != nil {
			t.Fatalf("read but not writable: %v", err)
		}
		back, err := job.ReadFile(&again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, back, cmpopts.EquateComparable(netip.AddrPort{})); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzReadMessage(f *testing.F) {
	for _, m := range []job.Message{
		{Kind: job.Seed, Addrs: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:4000"),
			netip.MustParseAddrPort("[fe80::1%eth0]:4000")}},
		{Kind: job.Joined, Rank: 3, PID: 77},
		{Kind: job.Exited, Rank: 2, Signal: 9, Text: "killed by SIGKILL"},
		{Kind: job.Failed, Rank: 1, PID: 78, Text: "collective: Close: rank 1 has sent 1 int64 with tag 1"},
		{Kind: job.Renew, Rank: 3, PID: 79, Epoch: 4, Blob: []byte("where it listens")},
		{Kind: job.Renewable, Rank: 3, PID: 79},
		{Kind: job.Begins, Roster: roster()},
		{Kind: job.Revoked, Rank: 2, Epoch: 4, Text: "has left the epoch"},
		{Kind: job.Waiting, Epoch: 4},
		{Kind: job.NoMore, Text: "--max-restarts 3 is reached"},
		{Kind: job.Show},
		{Kind: job.Stacks, Rank: 3, PID: 79, Text: "goroutine 1 [running]:"},
	} {
		var b bytes.Buffer
		if err := job.WriteMessage(&b, &m); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()/2])
	}
	f.Add([]byte("GET /metrics HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x0b\x81\xa4Text\xdb\xff\xff\xff\xff"))
	f.Add([]byte("\x0b\x00\x00\x00\x00\x00\x00\x16\x81\xa6Roster\x81\xa7Members\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			m, err := job.ReadMessage(r)
			if err != nil {
				return
			}
			if err := job.WriteMessage(io.Discard, m); err != nil {
				t.Fatalf("read but not writable: %v", err)
			}
		}
	})
}

// News come back as they were published, and a slot of the ring that holds other news, or none, is nothing.
func TestNewsComeBackAsWritten(t *testing.T) {
	for n, want := range []job.Message{
		{Kind: job.Exited, Epoch: 3, Rank: 65535, Signal: 9}, {Kind: job.Exited, Rank: 1, Code: 255},
		{Kind: job.Revoked, Epoch: job.MaxEpoch, Rank: 2}, {Kind: job.Exited, Rank: 5, Lost: true, Text: "has ended"},
	} {
		b := job.AppendNews(nil, &want, uint32(n)+1)
		if got := job.ParseNews(b, uint32(n)+1); got == nil || !cmp.Equal(*got, want) {
			t.Errorf("%+v came back as %+v", want, got)
		}
		if got := job.ParseNews(b, uint32(n)+129); got != nil {
			t.Errorf("news %d, whose slot holds number %d: %+v", n+129, n+1, got)
		}
	}
	if got := job.ParseNews(job.AppendNews(nil, &job.Message{Kind: job.Seed}, 1), 1); got != nil {
		t.Errorf("news of a kind that is none: %+v", got)
	}
}

func FuzzParseNews(f *testing.F) {
	f.Add(job.AppendNews(nil, &job.Message{Kind: job.Exited, Epoch: 3, Rank: 7, Signal: 9}, 1), uint32(1))
	f.Add(make([]byte, job.NewsBytes), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, n uint32) {
		if len(b) < job.NewsBytes {
			return
		}
		m := job.ParseNews(b[:job.NewsBytes], n)
		if m == nil {
			return
		}
		if again := job.ParseNews(job.AppendNews(nil, m, n), n); again == nil || !cmp.Equal(m, again) {
			t.Errorf("%+v came back as %+v", m, again)
		}
	})
}
