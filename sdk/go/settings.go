package mimir

// Option is a setting of a tool: a need, a hint, its approval.
type Option func(*settings)

type settings struct {
	name, title, description string
	group                    Group
	approval                 Approval
	risk                     Risk
	hints                    []Hint
	needs                    needs
}

type needs struct {
	files     []fileNeed
	hosts     []hostNeed
	commands  []commandNeed
	secrets   []secretNeed
	variables []string
	tools     []string
	model     bool
}

type fileNeed struct {
	path, reason string
	write        bool
}

type hostNeed struct {
	host    string
	methods []string
	reason  string
}

type commandNeed struct{ pattern, reason string }

type secretNeed struct{ name, host, header, reason string }

func (n *needs) isEmpty() bool {
	return len(n.files)+len(n.hosts)+len(n.commands)+len(n.secrets)+len(n.variables)+len(n.tools) == 0 && !n.model
}

// Group is the group of a tool; policies can address a whole group.
type Group uint8

// The groups.
const (
	SystemGroup Group = iota
	RuntimeGroup
	FSGroup
	NetGroup
	BrowserGroup
	MemoryGroup
)

// Approval is the decision on a call if no rule matches.
type Approval uint8

// The decisions. By default, a tool without needs is allowed, and any other asks.
const (
	DefaultApproval Approval = iota
	Allow
	Ask
	Deny
)

// Risk is the risk of a wrong call.
type Risk uint8

// The risks.
const (
	LowRisk Risk = iota
	MediumRisk
	HighRisk
	CriticalRisk
)

// Hint is a declared effect. The host uses hints only to make decisions stricter.
type Hint uint8

// The hints.
const (
	ReadOnly Hint = iota
	Destructive
	Idempotent
	OpenWorld
)

// Name sets the name of the tool. Default: the name of the input type in snake_case.
func Name(name string) Option { return func(s *settings) { s.name = name } }

// Title sets the title to display.
func Title(title string) Option { return func(s *settings) { s.title = title } }

// Description replaces the doc comment of the input type.
func Description(text string) Option { return func(s *settings) { s.description = text } }

// InGroup sets the group.
func InGroup(group Group) Option { return func(s *settings) { s.group = group } }

// Approved sets the decision on calls if no rule matches.
func Approved(approval Approval) Option { return func(s *settings) { s.approval = approval } }

// WithRisk sets the risk of a wrong call.
func WithRisk(risk Risk) Option { return func(s *settings) { s.risk = risk } }

// Hints declares effects.
func Hints(hints ...Hint) Option { return func(s *settings) { s.hints = append(s.hints, hints...) } }

// Read requests to read the files in a directory, relative to the workspace root; "." is the whole workspace.
func Read(path, reason string) Option {
	return func(s *settings) { s.needs.files = append(s.needs.files, fileNeed{path, reason, false}) }
}

// Write requests to read, create, change and remove the files in a directory.
func Write(path, reason string) Option {
	return func(s *settings) { s.needs.files = append(s.needs.files, fileNeed{path, reason, true}) }
}

// Host requests access to a host (api.example.com, *.example.com, optionally with a port) with these methods.
func Host(host string, methods []string, reason string) Option {
	return func(s *settings) { s.needs.hosts = append(s.needs.hosts, hostNeed{host, methods, reason}) }
}

// Command requests to run commands that match a pattern such as "git status *", word by word.
func Command(pattern, reason string) Option {
	return func(s *settings) { s.needs.commands = append(s.needs.commands, commandNeed{pattern, reason}) }
}

// Secret requests a credential for a header of requests to a host. The environment variable name is a placeholder, which
// the host replaces in that header.
func Secret(name, host, header, reason string) Option {
	return func(s *settings) { s.needs.secrets = append(s.needs.secrets, secretNeed{name, host, header, reason}) }
}

// Variable requests the value of an environment or configuration variable.
func Variable(name string) Option {
	return func(s *settings) { s.needs.variables = append(s.needs.variables, name) }
}

// OtherTool requests to call another tool.
func OtherTool(name string) Option {
	return func(s *settings) { s.needs.tools = append(s.needs.tools, name) }
}

// Model requests completions from the host's language model.
func Model() Option { return func(s *settings) { s.needs.model = true } }
