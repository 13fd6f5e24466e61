// Other tools.
import * as others from "mimir:tool/tools@1.0.0";

hands.call = ({ name, args }) => {
  const output = told(() => others.call(name, text(args)));
  const texts = output.content.filter((part) => part.tag === "text").map((part) => part.val);
  return [{
    success: true,
    output: texts.join("\n"),
    structured: output.structured == null ? null : parse(output.structured),
    exitCode: output.exitCode ?? null,
  }];
};

