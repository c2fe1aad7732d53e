#include "store/migrations.h"

#include <array>

namespace warren::store {
namespace {

// Times are milliseconds since 1970 in UTC.
constexpr std::array kMigrations = {
    std::string_view(R"sql(
CREATE TABLE accounts (
  id         TEXT PRIMARY KEY NOT NULL,
  role       TEXT NOT NULL,            -- 'operator' or 'member'
  created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX one_operator ON accounts (role) WHERE role = 'operator';

CREATE TABLE keys (
  id           TEXT PRIMARY KEY NOT NULL,  -- the prefix
  account_id   TEXT NOT NULL REFERENCES accounts (id),
  name         TEXT NOT NULL,
  digest       TEXT NOT NULL,              -- SHA-256 of the whole key, hex
  scopes       TEXT NOT NULL,              -- separated by single spaces
  created_ms   INTEGER NOT NULL,
  last_used_ms INTEGER,
  revoked_ms   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_of_account ON keys (account_id);

CREATE TABLE sandboxes (
  id            TEXT PRIMARY KEY NOT NULL,
  account_id    TEXT NOT NULL REFERENCES accounts (id),
  name          TEXT NOT NULL,
  template_name TEXT NOT NULL,
  isolation     TEXT NOT NULL,
  fork_copies   TEXT NOT NULL,
  egress        TEXT NOT NULL,
  persistent    INTEGER NOT NULL,
  created_ms    INTEGER NOT NULL,
  expires_ms    INTEGER NOT NULL,
  dead_reason   TEXT                       -- NULL while it lives
) STRICT, WITHOUT ROWID;
)sql"),
    // Accounts have names for people.
    std::string_view(R"sql(
ALTER TABLE accounts ADD COLUMN name TEXT NOT NULL DEFAULT '';
UPDATE accounts SET name = CASE role WHEN 'operator' THEN 'operator' ELSE id END;
CREATE UNIQUE INDEX account_names ON accounts (name);
CREATE INDEX sandboxes_of_account ON sandboxes (account_id);
)sql"),
    // Ports have URLs.
    std::string_view(R"sql(
CREATE TABLE ports (
  sandbox_id    TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
  port          INTEGER NOT NULL,
  url_digest    TEXT NOT NULL UNIQUE,  -- SHA-256 of the token in the URL, hex
  access_digest TEXT,                  -- of the second token; NULL where none is needed
  created_ms    INTEGER NOT NULL,
  PRIMARY KEY (sandbox_id, port)
) STRICT, WITHOUT ROWID;
)sql"),
};

}  // namespace

std::span<const std::string_view> migrations() { return kMigrations; }

}  // namespace warren::store
