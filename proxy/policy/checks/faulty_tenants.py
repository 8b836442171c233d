"""Apps that cannot be tenants: unknown ones, those that a client only claims to be of, and names that could make one
tenant's prefix begin another's."""

from proxy.policy.model import Policy
from proxy.policy_yaml.yaml_source import Problems


def find_faulty_tenants(policy: Policy, problems: Problems) -> None:
    """Note them."""
    tenants = policy.tenants
    apps = {app.name: app for app in policy.apps}
    for name in sorted(tenants.apps):
        app = apps.get(name)
        if app is None:
            problems.add(tenants.where, "tenants.apps", name, f"an app: {', '.join(apps) or 'apps names none'}")
        elif not app.proven:
            expected = "an app that no client can claim to be of: match it by user, listener, certificate or address"
            problems.add(tenants.where, "tenants.apps", f"{name}, which is matched by client_name", expected)
        elif problem := tenants.problem_of("app", name):
            problems.add(tenants.where, "tenants.apps", name, f"a name that can be part of the prefix: {problem}")
