// Environment variables: settings, and the placeholders of secrets.
import * as variables from "wasi:cli/environment@0.2.9";

hands.environment = () => Object.fromEntries(variables.getEnvironment());

