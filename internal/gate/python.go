package gate

import "strings"

// requirementFiles are the names that lists for pip commonly have.
var requirementFiles = [...]string{
	"requirements.txt", "requirements-dev.txt", "dev-requirements.txt", "requirements-test.txt", "test-requirements.txt",
}

func python(r Root) []Gate {
	project, setup, tox := r.text("pyproject.toml"), r.text("setup.cfg"), r.text("tox.ini")
	var named strings.Builder
	named.WriteString(project + setup + tox + r.text("Pipfile"))
	sources := r.has("setup.py") || r.has("Pipfile") || project != "" || setup != "" || tox != ""
	var requirements []string
	for _, name := range requirementFiles {
		if r.has(name) {
			sources = true
			requirements = append(requirements, name)
			named.WriteString("\n" + r.text(name))
		}
	}
	if !sources {
		return nil
	}
	var gates []Gate
	hasTests := r.has("tests/") || r.has("test/") || r.glob("test_*.py") || r.glob("*_test.py")
	switch {
	case hasTests && (strings.Contains(named.String(), "pytest") || r.has("pytest.ini") || r.has("conftest.py")):
		gates = append(gates, found(Test, "pytest", "python3 -m pytest"))
	case tox != "" && strings.Contains(tox, "[testenv"):
		gates = append(gates, same(Test, "tox"))
	case r.has("tests/"):
		gates = append(gates, found(Test, "unittest", "python3 -m unittest discover -s tests"))
	case hasTests:
		gates = append(gates, found(Test, "unittest", "python3 -m unittest discover"))
	}
	if strings.Contains(project, "[tool.mypy") || strings.Contains(setup, "[mypy") || r.has("mypy.ini") ||
		r.has(".mypy.ini") {
		gates = append(gates, found(Typecheck, "mypy", "python3 -m mypy ."))
	}
	switch {
	case strings.Contains(project, "[tool.ruff") || r.has("ruff.toml") || r.has(".ruff.toml"):
		gates = append(gates, found(Lint, "ruff", "ruff check ."))
	case r.has(".flake8") || strings.Contains(setup, "[flake8") || strings.Contains(tox, "[flake8"):
		gates = append(gates, found(Lint, "flake8", "python3 -m flake8"))
	}
	return prepared(pythonPackages(r, requirements), gates...)
}

// pythonPackages is how a tree gets the packages it depends on: by the tool whose
// lock file it has, else by pip.
func pythonPackages(r Root, requirements []string) Prepare {
	p := Prepare{Keep: ".venv"}
	switch {
	case r.has("uv.lock"):
		p.Command, p.Inputs = "uv sync --frozen --all-groups --all-extras", "pyproject.toml uv.lock"
	case r.has("poetry.lock"):
		p.Command = "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction --all-extras"
		p.Inputs = "pyproject.toml poetry.lock"
	case r.has("Pipfile.lock"):
		p.Command, p.Inputs = "PIPENV_VENV_IN_PROJECT=1 pipenv sync --dev", "Pipfile Pipfile.lock"
	case len(requirements) > 0:
		p.Inputs = strings.Join(requirements, " ")
		p.Command = "python3 -m venv --system-site-packages .venv && .venv/bin/pip install -q -r " +
			strings.Join(requirements, " -r ")
	default:
		return Prepare{}
	}
	return p
}
