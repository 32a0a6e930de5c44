# nix build (the command), nix run . -- compare -s eevdf,o1 -w chat
{
  description = "A laboratory for Linux CPU schedulers";
  inputs.nixpkgs.url = "nixpkgs/nixos-unstable";
  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      package = pkgs: pkgs.rustPlatform.buildRustPackage {
        pname = "schedlab";
        version = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package.version;
        src = self;
        cargoLock.lockFile = ./Cargo.lock;
        cargoBuildFlags = [ "-p" "schedlab" ];
        nativeBuildInputs = [ pkgs.pkg-config pkgs.installShellFiles pkgs.llvmPackages.clang-unwrapped ];
        buildInputs = [ pkgs.elfutils pkgs.zlib ];
        # The wrapped compiler passes flags that the BPF target does not know.
        CLANG = "${pkgs.llvmPackages.clang-unwrapped}/bin/clang";
        # `make test` runs the tests; they want kernels and a network.
        doCheck = false;
        postInstall = ''
          mkdir man
          $out/bin/schedlab man man
          installManPage man/*.1
          for shell in bash zsh fish; do $out/bin/schedlab completions $shell > schedlab.$shell; done
          installShellCompletion schedlab.{bash,zsh,fish}
          install -Dm644 -t $out/share/licenses/schedlab LICENSE* packaging/copyright
          install -Dm644 schedulers/LICENSE $out/share/licenses/schedlab/LICENSE-GPL-2.0
        '';
        meta = {
          description = "A laboratory for Linux CPU schedulers: one sched_ext object, simulated and real";
          license = with pkgs.lib.licenses; [ mit asl20 gpl2Only ];
          mainProgram = "schedlab";
        };
      };
    in {
      packages = nixpkgs.lib.genAttrs systems (system: { default = package nixpkgs.legacyPackages.${system}; });
    };
}
