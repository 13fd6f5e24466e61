//! Popular package names, to point out names that differ from one of them by a typing error.

use super::package_spec::PackageEcosystem;

/// Minimum length for a comparison by letters: shorter names of different packages are often one letter apart.
const LENGTH_MIN: usize = 4;

const NPM: &str = "react react-dom preact lodash axios express chalk commander typescript webpack eslint prettier jest vitest vite \
    next nuxt vue vuex svelte angular moment dayjs uuid dotenv debug request async bluebird underscore jquery rxjs redux \
    react-redux react-router react-router-dom styled-components tailwindcss postcss autoprefixer sass esbuild rollup \
    babel-loader ts-node ts-jest nodemon cross-env cross-spawn rimraf mkdirp glob minimist yargs inquirer ora execa semver \
    body-parser cors helmet morgan mongoose mongodb mysql mysql2 pg sequelize prisma typeorm knex redis ioredis socket.io ws \
    jsonwebtoken bcrypt bcryptjs passport multer nodemailer puppeteer playwright cypress mocha chai sinon supertest zod \
    joi ajv validator classnames clsx immer zustand graphql apollo-server fastify koa hapi electron three d3 chart.js \
    cheerio node-fetch cross-fetch fs-extra colors winston pino left-pad discord.js ethers web3 openai";

const PYTHON: &str = "requests numpy pandas scipy matplotlib scikit-learn tensorflow torch torchvision keras django flask fastapi \
    uvicorn gunicorn sqlalchemy pydantic pytest pytest-cov tox setuptools wheel pip virtualenv poetry black ruff flake8 \
    pylint mypy isort click typer rich tqdm colorama pyyaml python-dateutil python-dotenv pytz six attrs jinja2 \
    markupsafe werkzeug urllib3 certifi charset-normalizer idna chardet boto3 botocore s3transfer awscli beautifulsoup4 \
    lxml html5lib selenium scrapy pillow opencv-python celery redis pymongo psycopg2 psycopg2-binary mysqlclient \
    cryptography pycryptodome paramiko httpx aiohttp websockets openai anthropic langchain transformers datasets \
    tokenizers nltk spacy gensim seaborn plotly dash streamlit jupyter notebook ipython ipykernel sympy networkx \
    packaging typing-extensions protobuf grpcio google-api-python-client jsonschema marshmallow alembic";

const CARGO: &str = "serde serde_json serde_yaml serde_derive tokio tokio-util futures async-trait anyhow thiserror clap log \
    env_logger tracing tracing-subscriber rand regex chrono time uuid reqwest hyper axum actix-web warp tower tonic prost \
    rayon crossbeam parking_lot once_cell lazy_static itertools bytes base64 hex sha2 sha1 md5 ring rustls openssl \
    native-tls libc nix bitflags num num-traits num-bigint syn quote proc-macro2 bindgen cxx wasm-bindgen web-sys js-sys \
    diesel sqlx rusqlite redis mongodb tempfile walkdir glob toml url http mime image criterion proptest insta indexmap \
    hashbrown smallvec arrayvec dashmap ahash memchr either semver strum derive_more itoa ryu";

const GO: &str = "github.com/stretchr/testify github.com/gin-gonic/gin github.com/gorilla/mux github.com/spf13/cobra \
    github.com/spf13/viper github.com/spf13/pflag github.com/sirupsen/logrus github.com/google/uuid github.com/pkg/errors \
    github.com/lib/pq github.com/go-sql-driver/mysql github.com/labstack/echo github.com/gofiber/fiber \
    github.com/redis/go-redis github.com/urfave/cli github.com/joho/godotenv github.com/golang-jwt/jwt \
    github.com/golang/protobuf github.com/prometheus/client_golang github.com/aws/aws-sdk-go github.com/rs/zerolog \
    github.com/fatih/color github.com/mattn/go-sqlite3 github.com/gorilla/websocket github.com/hashicorp/go-multierror \
    go.uber.org/zap google.golang.org/grpc google.golang.org/protobuf golang.org/x/text golang.org/x/net \
    golang.org/x/crypto golang.org/x/sync golang.org/x/sys golang.org/x/tools gopkg.in/yaml.v3 gorm.io/gorm";

fn list(ecosystem: PackageEcosystem) -> &'static str {
    match ecosystem {
        PackageEcosystem::Npm => NPM,
        PackageEcosystem::Python => PYTHON,
        PackageEcosystem::Cargo => CARGO,
        PackageEcosystem::Go => GO,
    }
}

/// Returns the popular names that `name` could be a typing error of: one letter is missing, added, replaced or swapped
/// with its neighbour, or only separators differ. A popular name itself has no near misses.
pub(super) fn near_misses(ecosystem: PackageEcosystem, name: &str) -> Vec<&'static str> {
    let name = match ecosystem {
        PackageEcosystem::Go => without_major_version(name),
        _ => name,
    };
    let names = || list(ecosystem).split_whitespace();
    // In the exact spelling: `Express` of npm is another package than `express`.
    if names().any(|popular| popular == name) {
        return Vec::new();
    }
    let name = name.to_lowercase();
    let plain = without_separators(&name);
    let resembles = |popular: &&str| {
        let is_long = popular.len() >= LENGTH_MIN && name.len() >= LENGTH_MIN;
        (is_long && is_one_slip_apart(popular.as_bytes(), name.as_bytes()))
            || without_separators(popular) == plain
            || is_scoped_copy(popular, &name)
    };
    names().filter(resembles).collect()
}

/// Returns the path of a Go module without a last part such as `/v2`.
fn without_major_version(module: &str) -> &str {
    let is_version = |part: &str| {
        let number = part.strip_prefix('v').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    match module.rsplit_once('/') {
        Some((path, last)) if is_version(last) => path,
        _ => module,
    }
}

/// Returns true if two different names differ by one missing or other letter, or by two swapped neighbours.
fn is_one_slip_apart(one: &[u8], other: &[u8]) -> bool {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[same..], &other[same..]);
    match (one, other) {
        ([_, rest @ ..], other) if rest == other => true,
        (one, [_, rest @ ..]) if rest == one => true,
        ([_, rest @ ..], [_, other_rest @ ..]) if rest == other_rest => true,
        ([a, b, rest @ ..], [c, d, other_rest @ ..]) => (a, b) == (d, c) && rest == other_rest,
        _ => false,
    }
}

fn without_separators(name: &str) -> String {
    let is_separator = |c: char| "-_.".contains(c);
    name.chars().filter(|c| !is_separator(*c)).collect()
}

/// Returns true for a scoped name of npm whose last part is popular without a scope, such as `@evil/lodash`.
fn is_scoped_copy(popular: &str, name: &str) -> bool {
    let scoped = name.strip_prefix('@').and_then(|rest| rest.split_once('/'));
    scoped.is_some_and(|(scope, name)| scope != "types" && name == popular)
}

#[cfg(test)]
mod tests {
    use super::super::package_spec::PackageSpec;
    use super::PackageEcosystem::*;
    use super::*;

    #[test]
    fn package_near_misses_of_popular_names_are_found() {
        for (ecosystem, name, popular) in [
            (Npm, "lodahs", "lodash"),
            (Npm, "loadash", "lodash"),
            (Npm, "expres", "express"),
            (Npm, "Express1", "express"),
            (Npm, "Express", "express"),
            (
                Go,
                "github.com/labstacks/echo/v4",
                "github.com/labstack/echo",
            ),
            (Npm, "1odash", "lodash"),
            (Npm, "crossenv", "cross-env"),
            (Npm, "react_router", "react-router"),
            (Npm, "@evil/lodash", "lodash"),
            (Python, "reqeusts", "requests"),
            (Python, "pythondateutil", "python-dateutil"),
            (Cargo, "serde-json", "serde_json"),
            (Cargo, "tokoi", "tokio"),
            (
                Go,
                "github.com/stretchr/testifi",
                "github.com/stretchr/testify",
            ),
        ] {
            assert!(near_misses(ecosystem, name).contains(&popular), "{name}");
        }
        for (ecosystem, name) in [
            (Npm, "lodash"),
            (Npm, "@types/lodash"),
            (Npm, "my-own-package"),
            // Two letters: too short to compare.
            (Npm, "ms"),
            (Npm, "lodasxy"),
            (Python, "numpy"),
        ] {
            assert_eq!(near_misses(ecosystem, name), Vec::<&str>::new(), "{name}");
        }
    }

    #[test]
    fn package_popular_names_are_valid_names() {
        for ecosystem in [Npm, Python, Cargo, Go] {
            for name in list(ecosystem).split_whitespace() {
                let spec = PackageSpec::parse(ecosystem, name).unwrap();
                assert_eq!(spec.name, name);
            }
        }
    }
}
