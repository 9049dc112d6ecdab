"""Logins, encryption and permissions on the command line of "headwater start"."""

import argparse
from datetime import timedelta
from pathlib import Path

from headwater.access.scram import MECHANISMS as SCRAM
from headwater.cli.arguments import checked, duration_seconds
from headwater.settings import SecuritySettings

MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
FILES = (
    ("--certificate", "PEM file with the certificate of this node: encrypts the Kafka port and the HTTP port"),
    ("--certificate-key", "PEM file with its private key (default: it is in the file of the certificate)"),
    ("--client-authority", "PEM file with the authority of client certificates: they say who a client is"),
)


def add_security(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("logins, encryption and permissions")
    group.add_argument(
        "--login",
        choices=MECHANISMS,
        action="append",
        default=[],
        help="how clients of the Kafka port log in; may be repeated. Users then need permissions: see headwater acl",
    )
    for name, about in FILES:
        group.add_argument(name, metavar="FILE", type=Path, help=about)
    group.add_argument(
        "--client-certificate-required", action="store_true", help="refuse clients that show no certificate"
    )
    group.add_argument(
        "--principal-mapping",
        metavar="RULES",
        default=SecuritySettings.principal_mapping,
        help="how the name in a certificate becomes a user, as Kafka's ssl.principal.mapping.rules (default: DEFAULT)",
    )
    group.add_argument(
        "--super-user", metavar="PRINCIPAL", action="append", default=[],
        help="who may do everything, such as User:admin; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--allowed-without-acl", action="store_true", help="let users do everything with what no ACL is about"
    )
    group.add_argument(
        "--session-lifetime",
        metavar="DURATION",
        type=checked(duration_seconds),
        default=0.0,
        help="how long a login counts before the client has to log in again, such as 1h (default: for ever)",
    )
    group.add_argument(
        "--advertised-host", metavar="NAME", default="",
        help="the name under which clients reach the Kafka port, as in its certificate (default: the address they use)",
    )  # fmt: skip
    group.add_argument("--oauth-keys", metavar="FILE|URL", default="", help="the JWKS that signs tokens of OAUTHBEARER")
    group.add_argument("--oauth-issuer", metavar="ISSUER", default="", help="who must have issued a token")
    group.add_argument("--oauth-audience", metavar="NAME", default="", help="for whom a token must be")
    group.add_argument(
        "--oauth-user-claim", metavar="CLAIM", default="sub", help="the claim that names the user (default: sub)"
    )


def security_settings(arguments: argparse.Namespace) -> SecuritySettings:
    return SecuritySettings(
        mechanisms=tuple(dict.fromkeys(arguments.login)),
        certificate=arguments.certificate,
        certificate_key=arguments.certificate_key,
        client_authority=arguments.client_authority,
        client_certificate_required=arguments.client_certificate_required,
        principal_mapping=arguments.principal_mapping,
        super_users=tuple(arguments.super_user),
        allowed_without_acl=arguments.allowed_without_acl,
        session_lifetime_max=timedelta(seconds=arguments.session_lifetime),
        oauth_keys=arguments.oauth_keys,
        oauth_issuer=arguments.oauth_issuer,
        oauth_audience=arguments.oauth_audience,
        oauth_user_claim=arguments.oauth_user_claim,
    )
