"""Names that refer from one part of a policy to another, and the parts that each file may have.

Errors: an unknown rule or app; the same app twice; a mode in two places; a part that would loosen a locked rule; an
app's file that would loosen a rule, or is about other apps. Warnings: an exemption for an app that is only claimed,
which has no effect, since any client can set a client name.
"""

from proxy.policy.apps import App
from proxy.policy.document import Document
from proxy.policy.model import Policy, PolicyRule, RolloutLine, Stage
from proxy.policy.precedence import effective_mode, is_active
from proxy.policy.tenants import TENANTS
from proxy.policy_yaml.errors import Where, shown
from proxy.policy_yaml.yaml_source import Problems
from proxy.rules.names.rule import NamesSettings


def check_references(policy: Policy, documents: list[Document], problems: Problems) -> list[str]:
    """Note the errors; return the warnings."""
    return _Check(policy, problems).check(documents)


class _Check:
    def __init__(self, policy: Policy, problems: Problems) -> None:
        self._policy = policy
        self._problems = problems
        self._rules = {rule.name: rule for rule in policy.rules}
        self._apps: dict[str, App] = {}
        self._warnings: list[str] = []

    def check(self, documents: list[Document]) -> list[str]:
        for app in self._policy.apps:
            other = self._apps.setdefault(app.name, app)
            if other is not app:
                self._note(app.where, f"apps.{app.name}", "a second time", f"it once (first in {other.where})")
        for document in documents:
            for placed in document.schema:
                if not document.app:
                    self._app(placed.entry.app, placed.where, f"schema.{placed.entry.name}.app")
            if document.app:
                self._check_app_file(document)
            else:
                self._check_rollout(document)
        self._check_scopes()
        self._check_modes()
        self._check_owners(documents)
        self._check_exceptions()
        self._check_tests()
        return self._warnings

    def _note(self, where: Where, path: str, found: str, expected: str) -> None:
        self._problems.add(where, path, found, expected)

    def _rule(self, name: str, where: Where, path: str) -> PolicyRule | None:
        rule = self._rules.get(name)
        if rule is None and name:
            self._note(where, path, shown(name), f"a rule: {', '.join(self._rules) or 'there is none'}")
        return rule

    def _app(self, name: str, where: Where, path: str) -> App | None:
        app = self._apps.get(name)
        if app is None and name:
            self._note(where, path, shown(name), f"an app: {', '.join(self._apps) or 'apps names none'}")
        return app

    def _check_scopes(self) -> None:
        """Note unknown apps of rules, and modes and exceptions for apps that a rule is not on for."""
        for rule in self._policy.rules:
            for name in rule.scope.apps:
                self._app(name, rule.where, f"rules.{rule.name}.apps")
            line = self._policy.rollout.get(rule.name)
            said = [] if line is None else [(app, stage.where) for app, stage in line.apps.items()]
            own = ((app, stage) for (named, app), stage in self._policy.tightened.items() if named == rule.name)
            for app, where in (*said, *((app, stage.where) for app, stage in own)):
                if not rule.scope.has_app(app):
                    self._note(where, f"rollout.{rule.name}.{app}", app, self._apps_of(rule))
            for i, exception in enumerate(self._policy.exceptions):
                if exception.rule == rule.name and exception.app and not rule.scope.has_app(exception.app):
                    self._note(exception.where, f"exceptions[{i}].app", exception.app, self._apps_of(rule))

    def _apps_of(self, rule: PolicyRule) -> str:
        return f"one of {', '.join(rule.scope.apps)}: {rule.name} ({rule.where}) is on for these apps only"

    def _check_modes(self) -> None:
        if not self._policy.rollout:
            return
        for rule in self._policy.rules:
            if rule.mode is not None and not rule.app and not rule.locked:
                path = f"rules.{rule.name}.mode"
                self._note(rule.mode.where, path, str(rule.mode), "no mode here: this policy sets modes in its rollout")

    def _check_rollout(self, document: Document) -> None:
        for name, line in document.rollout.items():
            where = document.rollout_where[name]
            path = f"rollout.{name}"
            rule = self._rule(name, where, path)
            if rule is not None and rule.app:
                self._note(where, path, "a rule of an app's own file", "a rule of the platform; set the mode there")
            for stage in (line.default, *line.apps.values()):
                if rule is not None and rule.locked and stage is not None and str(stage) != "enforce":
                    self._note(stage.where, path, str(stage), f"enforce, since the rule is locked ({rule.where})")
            for app_name, stage in line.apps.items():
                app = self._app(app_name, stage.where, f"{path}.{app_name}")
                if app is not None and not app.proven and not stage.tightens(self._usual(rule, line)):
                    self._warn(stage.where, f"{path}.{app_name}: {self._claimed(app)}, so this has no effect")

    def _usual(self, rule: PolicyRule | None, line: RolloutLine) -> Stage:
        if line.default is not None:
            return line.default
        return self._policy.default if rule is None or rule.mode is None else rule.mode

    def _warn(self, where: Where, text: str) -> None:
        self._warnings.append(f"{where}: {text}")

    def _claimed(self, app: App) -> str:
        return f"{app.name} is only claimed (by its client name), never exempted"

    def _check_owners(self, documents: list[Document]) -> None:
        """Warn of schema entries of an app that is only claimed: rules treat their keys as no app's own."""
        asking = [
            rule.name for rule in self._policy.rules if isinstance(rule.settings, NamesSettings) and rule.settings.owned
        ]
        claimed = {app.name: app for app in self._policy.apps if not app.proven}
        for placed in (each for document in documents for each in document.schema):
            app = claimed.pop(placed.entry.app, None)
            if asking and app is not None:
                effect = f"so {asking[0]} treats its keys as no app's own"
                self._warn(placed.where, f"{placed.path}: {self._claimed(app)}, {effect}")

    def _check_app_file(self, document: Document) -> None:
        app = self._app(document.app, document.app_where or Where(document.file), "app")
        for name, line in document.rollout.items():
            where = document.rollout_where[name]
            path = f"rollout.{name}"
            rule = self._rule(name, where, path)
            if line.apps:
                self._note(where, path, "modes of apps", "one mode: this file sets modes for its own app only")
            if rule is not None and rule.app not in {"", document.app}:
                self._note(where, path, f"a rule of {rule.app}", "a rule of the platform, or one of this file")
            elif rule is not None and app is not None and line.default is not None:
                self._check_tightens(rule, app, line.default, path)
        for rule in document.rules:
            if rule.locked:
                self._note(rule.where, f"rules.{rule.name}.locked", "true", "a locked rule in the platform's file only")

    def _check_tightens(self, rule: PolicyRule, app: App, stage: Stage, path: str) -> None:
        others = {key: each for key, each in self._policy.tightened.items() if key != (rule.name, app.name)}
        without = Policy(
            self._policy.source, default=self._policy.default, rollout=self._policy.rollout, tightened=others
        )
        usual = effective_mode(without, rule, app, paused=False).stage
        if not stage.tightens(usual):
            self._note(stage.where, path, str(stage), f"{usual} or stricter: an app's file never loosens a rule")

    def _check_exceptions(self) -> None:
        for i, exception in enumerate(self._policy.exceptions):
            path = f"exceptions[{i}]"
            rule = self._rule(exception.rule, exception.where, f"{path}.rule")
            if rule is not None and rule.locked:
                self._note(exception.where, f"{path}.rule", f"{rule.name}, which is locked", "a rule that is not")
            app = self._app(exception.app, exception.where, f"{path}.app")
            if app is not None and not app.proven:
                self._warn(exception.where, f"{path}: {self._claimed(app)}, so this has no effect")

    def _check_tests(self) -> None:
        for i, test in enumerate(self._policy.tests):
            self._app(test.app, test.where, f"tests[{i}].app")
            for key, name in ((key, name) for key, names in test.by.items() for name in names):
                if key == "refused_by" and name == TENANTS and self._policy.tenants:
                    continue
                rule = self._rule(name, test.where, f"tests[{i}].{key}")
                if rule is not None and not is_active(self._policy, rule):
                    self._note(test.where, f"tests[{i}].{key}", f"{rule.name}, which is off", "a rule that is not")
