"""What can go wrong, as sentences for the user."""


class SweepError(Exception):
    """A sentence that says what is wrong and what to do. `status`: exit status of the command."""

    def __init__(self, sentence, status=2):
        super().__init__(sentence)
        self.status = status


class Interrupted(SweepError):
    """The user stopped the sweep; what was done is kept."""

    def __init__(self, sentence):
        super().__init__(sentence, 130)
